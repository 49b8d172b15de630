#!/usr/bin/env bash
# The time of a whole answer, compared with other work on the same file: decompressing it, and reading it with other installed
# tools.
#
# Runs are interleaved, because computers are noisy: a slow minute then affects all of them. The results are the median, and its ratio
# to `gzip -dc` of the same file (`cat` for a plain file). Slow tools run once.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: benches/compare.sh [-n RUNS] [TRACE ...]
  -n RUNS   how often the fast commands run (default 7); peers of the slow kind run once
  TRACE     plain or gzipped traces; by default one of 500 MB is made, gzipped and plain
TEXT
}

runs=7
while getopts n:h option; do
    case $option in
        n) runs=$OPTARG ;;
        h) usage; exit 0 ;;
        *) usage >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1))

root=$(cd "$(dirname "$0")/.." && pwd)
cargo build --release --quiet --manifest-path "$root/Cargo.toml"
ours=${CARGO_TARGET_DIR:-$root/target}/release/nccl-stacks
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ $# -eq 0 ]; then
    made=${CARGO_TARGET_DIR:-$root/target}/compare
    mkdir -p "$made"
    if [ ! -f "$made/big.json" ]; then
        cargo run --release --quiet --manifest-path "$root/Cargo.toml" --example make_trace -- \
            big --size-mb 500 --seed 1 "$made/big.json.gz"
        gzip -dc "$made/big.json.gz" > "$made/big.json.part"
        mv "$made/big.json.part" "$made/big.json"
    fi
    set -- "$made/big.json.gz" "$made/big.json"
fi

has() { command -v "$1" > /dev/null 2>&1; }
imports() { has python3 && python3 -c "import $1" > /dev/null 2>&1; }

# One line per run: seconds, CPU seconds, peak KiB (0 if there is no GNU time to ask), exit status.
measure() {
    local name=$1 start end cpu peak=0 status=0 TIMEFORMAT='%U %S'
    shift
    start=$EPOCHREALTIME
    if [ -x /usr/bin/time ]; then
        { time /usr/bin/time -f %M -o "$work/peak" "$@" > /dev/null 2> "$work/$name.stderr"; } 2> "$work/cpu" || status=$?
        end=$EPOCHREALTIME
        peak=$(tail -1 "$work/peak")
    else
        { time "$@" > /dev/null 2> "$work/$name.stderr"; } 2> "$work/cpu" || status=$?
        end=$EPOCHREALTIME
    fi
    cpu=$(awk '{ print $1 + $2 }' "$work/cpu")
    # A trace without NCCL kernels is read like any other, and exits with 3.
    case $name-$status in nccl-stacks*-3) status=0 ;; esac
    awk -v s="$start" -v e="$end" -v c="$cpu" -v p="$peak" -v x="$status" 'BEGIN { printf "%.4f %.3f %d %d\n", e - s, c, p, x }' \
        >> "$work/$name.runs"
}

# The run with the median time, with its CPU time; the largest peak; and the worst exit status of a command's runs.
median() {
    sort -n "$work/$1.runs" | awk '
        { t[NR] = $1; c[NR] = $2; if ($3 > p) p = $3; if ($4 > x) x = $4 }
        END { m = int((NR + 1) / 2); print t[m], c[m], p + 0, x + 0 }'
}

# Peers load the whole trace, which takes most of their time; none of them prints launch stacks.
peer_json='import gzip, json, sys; p = sys.argv[1]; json.load(gzip.open(p) if p.endswith(".gz") else open(p))'
peer_hta='import sys; from hta.trace_analysis import TraceAnalysis; TraceAnalysis(trace_files={0: sys.argv[1]})'
peer_perfetto='import sys; from perfetto.trace_processor import TraceProcessor as T; T(trace=sys.argv[1]).query("select count(*) from slice")'

compare() {
    local trace bytes text base baseline name
    trace=$(realpath "$1")
    rm -f "$work"/*.runs
    bytes=$(stat -c %s "$trace")
    declare -A commands
    local fast=() slow=()
    add() { local list=$1 name=$2; shift 2; commands[$name]=$(printf '%q ' "$@"); eval "$list+=(\"\$name\")"; }
    add fast nccl-stacks "$ours" "$trace"
    add fast nccl-stacks_1_thread "$ours" --threads 1 "$trace"
    case $trace in
        *.gz)
            text=$(gzip -dc "$trace" | wc -c)
            baseline=gzip
            add fast gzip gzip -dc "$trace"
            if has igzip; then add fast igzip igzip -dc "$trace"; fi
            if has jq; then add slow jq sh -c "gzip -dc '$trace' | jq '.traceEvents | length'"; fi
            ;;
        *)
            text=$bytes
            baseline=cat
            add fast cat cat "$trace"
            if has jq; then add slow jq jq '.traceEvents | length' "$trace"; fi
            ;;
    esac
    if has python3; then add slow python_json python3 -c "$peer_json" "$trace"; fi
    if imports hta; then add slow HTA python3 -c "$peer_hta" "$trace"; fi
    if imports perfetto; then add slow perfetto_python python3 -c "$peer_perfetto" "$trace"; fi
    if has trace_processor_shell; then
        echo 'select count(*) from slice;' > "$work/query.sql"
        add slow trace_processor trace_processor_shell -q "$work/query.sql" "$trace"
    fi
    for _ in $(seq "$runs"); do
        for name in "${fast[@]}"; do eval "measure $name ${commands[$name]}"; done
    done
    for name in ${slow[@]+"${slow[@]}"}; do eval "measure $name ${commands[$name]}"; done
    read -r base _ < <(median "$baseline")
    printf '\n%s: %d MB of text in %d MB\n' "$(basename "$trace")" $((text / 1000000)) $((bytes / 1000000))
    # The share of the time in which only one thread was busy, assuming all were otherwise: more cores cannot shorten it.
    printf '%-22s %9s %10s %9s %9s %9s %9s\n' command seconds "of $baseline" GB/s 'peak MB' 'of text' 'one busy'
    for name in "${fast[@]}" ${slow[@]+"${slow[@]}"}; do
        read -r seconds cpu peak status < <(median "$name")
        if [ "$status" -ne 0 ]; then
            printf '%-22s failed (%d): %s\n' "$name" "$status" "$(tail -1 "$work/$name.stderr" | cut -c 1-70)"
            continue
        fi
        awk -v n="$name" -v s="$seconds" -v c="$cpu" -v k="$threads" -v b="$base" -v t="$text" -v p="$peak" 'BEGIN {
            one = n == "nccl-stacks" && k > 1 ? sprintf("%9.2f", (k * s - c) / ((k - 1) * s)) : ""
            printf "%-22s %9.3f %10.3f %9.2f %9.0f %9.3f %s\n", n, s, s / b, t / s / 1e9, p * 1024 / 1e6, p * 1024 / t, one
        }'
    done
}

# As many threads as the program uses.
threads=$(nproc)
if [ "$threads" -gt 16 ]; then threads=16; fi

echo "$(uname -sm), $(nproc) cores, $(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo 2> /dev/null), $runs runs"
for trace in "$@"; do compare "$trace"; done
