#!/usr/bin/env bash
# Lines of code by room: files, and lines with comments and blanks, of each folder of src and crates, and of what is around them.
set -euo pipefail
cd "$(dirname "$0")/.."

count() { # NAME FOLDER [DEPTH]
  find "$2" ${3:+-maxdepth "$3"} -type f \( -name '*.rs' -o -name '*.js' -o -name '*.css' -o -name '*.sql' -o -name '*.py' \) -print0 |
    xargs -0 -r cat -- | wc -l | xargs printf '%7d  %s\n' | sed "s|\$|$1|"
}

for crate in crates/*; do
  for room in "$crate"/src/*/; do [ -d "$room" ] && count "$room" "$room"; done
  count "$crate" "$crate"
done
for room in src/*/; do count "$room" "$room"; done
for whole in crates src queries tests benches fuzz python examples; do count "$whole" "$whole"; done
