#!/usr/bin/env python3
"""Checks the schemas in `schema/`, and answers in a folder against them, with the jsonschema package: `dist/schemas.py FOLDER`.

The tests have a validator of their own (`tests/support/schema.rs`); where `NCCL_STACKS_KEEP_ANSWERS` names a folder, they write there what they
have checked.
"""

import json
import sys
from collections import Counter
from pathlib import Path

from jsonschema import Draft202012Validator

ROOT = Path(__file__).resolve().parent.parent


def main():
    validators = {}
    common = json.loads((ROOT / "schema" / "common.schema.json").read_text())["$defs"]
    for path in sorted((ROOT / "schema").glob("*.schema.json")):
        if path.name == "common.schema.json":
            continue
        # What schemas have in common is in a file of its own.
        schema = json.loads(path.read_text().replace('"common.schema.json#', '"#'))
        schema["$defs"] = common | schema.get("$defs", {})
        Draft202012Validator.check_schema(schema)
        validators[path.name.removesuffix(".schema.json")] = Draft202012Validator(schema)
    counts, wrong = Counter(), 0
    for path in sorted(Path(sys.argv[1]).iterdir()):
        answer = json.loads(path.read_text())
        name = answer["schema"].removeprefix("nccl-stacks/")
        counts[name] += 1
        for error in validators[name].iter_errors(answer):
            wrong += 1
            print(f"{path.name}: {error.json_path}: {error.message}")
    print(f"{len(validators)} schemas, answers: {dict(counts)}, {wrong} errors")
    # Every schema has an answer, else nothing was compared.
    return 1 if wrong or set(counts) != set(validators) else 0


if __name__ == "__main__":
    sys.exit(main())
