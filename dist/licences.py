"""Collects the licences of the code that ends up in the program: a list of the crates, then each text once.

Nearly every crate brings its licence as a file in its source, which cargo has on disk when it has built the program. So this needs no tool of
its own and no network. The tools that do the same (cargo-about, cargo-bundle-licenses) are not to be had compiled, and to compile one takes
longer than to build the wheel.

Which licences are acceptable is not decided here but in `deny.toml`.
"""

import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path

NAMES = re.compile(r"(licen[sc]e|copying|notice|unlicense|copyright)(?!.*\.(rs|html|toml)$)", re.IGNORECASE)

# The program carries the recorder's library, which no crate depends on.
ROOTS = {"nccl-stacks", "nccl-stacks-recorder"}


def linked(source, target):
    """The packages of others that are compiled into the program or the recorder's library, as cargo describes them.

    Those that only build scripts and tests use are left out. Procedural macros are not: their output is compiled in.
    """
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    metadata = json.loads(subprocess.run(command, cwd=source, stdout=subprocess.PIPE, check=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node["deps"] for node in metadata["resolve"]["nodes"]}
    found, open_ids = set(), [key for key, package in packages.items() if package["name"] in ROOTS]
    while open_ids:
        key = open_ids.pop()
        if key in found:
            continue
        found.add(key)
        for dependency in nodes[key]:
            # Null is what cargo calls a normal dependency.
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                open_ids.append(dependency["pkg"])
    others = [packages[key] for key in found if packages[key]["source"] is not None]
    return sorted(others, key=lambda package: (package["name"], package["version"]))


def texts_of(package, source):
    """The licence texts of a package: its files, those of C code in it too."""
    folder = Path(package["manifest_path"]).parent
    files = [Path(path) / name for path, _, names in os.walk(folder) for name in names if NAMES.match(name)]
    if files:
        return [file.read_text("utf-8", "replace") for file in sorted(files)]
    if "MIT" not in re.split(r"[^\w.-]+", package["license"] or ""):
        sys.exit(f"{package['name']} {package['version']} ({package['license']}) has no file with its licence")
    # MIT is one text but for the line of the copyright.
    text = (source / "LICENSE-MIT").read_text("utf-8")
    return [re.sub(r"(?m)^Copyright.*$", "Copyright (c) " + ", ".join(package["authors"]), text, count=1)]


def plain(page):
    return html.unescape(re.sub(r"<[^>]*>", "", page))


def standard_library():
    """What Rust's own notices say of the standard library and the crates in it, as pairs of a name and a text."""
    root = subprocess.run(["rustc", "--print", "sysroot"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    page = Path(root) / "share/doc/rust/COPYRIGHT-library.html"
    if not page.is_file():
        sys.exit(f"{page}, the notices of Rust's standard library, is missing")
    own, _, others = page.read_text("utf-8").partition('<h2 id="out-of-tree-dependencies">')
    own = re.sub(r"\n\s*\n[\s\n]*", "\n\n", plain(own[own.index("<h1") :]))
    found = [("Rust's standard library", own)]
    for crate in others.split("<h3>")[1:]:
        name = plain(crate.partition("</h3>")[0]).replace("\N{PACKAGE}", "").strip()
        found += [(name + ", in Rust's standard library", plain(text)) for text in re.findall(r"(?s)<pre>(.*?)</pre>", crate)]
    return found


def write(source, target, path):
    """Writes the file, and returns how many packages and texts are in it."""
    packages = linked(source, target)
    texts = {}
    for package in packages:
        title = f"{package['name']} {package['version']}"
        for text in texts_of(package, source):
            texts.setdefault(" ".join(text.split()), (text, []))[1].append(title)
    for title, text in standard_library():
        texts.setdefault(" ".join(text.split()), (text, []))[1].append(title)
    lines = [
        "The program nccl-stacks is made of its own code (LICENSE-MIT or LICENSE-APACHE, at your choice), of these crates, and of Rust's",
        "standard library. SQLite, in libsqlite3-sys, is in the public domain. The texts of the licences follow the list.",
        "",
        *(f"{p['name']} {p['version']}: {p['license']}; source: {p['repository'] or p['homepage']}" for p in packages),
    ]
    for text, titles in texts.values():
        lines += ["", "=" * 100, "Of " + ", ".join(dict.fromkeys(titles)), "-" * 100, "", text.strip("\n")]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return len(packages), len(texts)
