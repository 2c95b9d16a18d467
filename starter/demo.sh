#!/usr/bin/env bash
# A whole diamond, as a new user would make it: three parts of a dataset, uploaded in parallel, become one bundle.
# KEEP=1 leaves the stack and the files.
set -euo pipefail

folder=$(mktemp -d "${TMPDIR:-/tmp}/datamon-demo.XXXXXX")
export DATAMON_HOME="$folder/home"
export DATAMON_CONTRIBUTOR="${DATAMON_CONTRIBUTOR:-Demo <demo@example.org>}"

tidy_up() {
    status=$?
    if [ -n "${KEEP:-}" ] && [ $status = 0 ]; then
        say "Left running. Look around, then stop it:"
        echo "    export DATAMON_HOME=$DATAMON_HOME"
        echo "    $(dirname "$(command -v datamon)")/datamon down"
    else
        datamon down 2> /dev/null || true
        rm -rf "$folder"
    fi
}
trap tidy_up EXIT
trap 'exit 130' INT TERM

bold='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$(printf '\033[1m') plain=$(printf '\033[0m'); fi
say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
run() { { printf '$'; printf ' %q' "$@"; echo; } >&2; "$@"; }

say "1. Three machines have made parts of one dataset. They overlap: stations.csv is the same in all, notes.txt is not."
for part in 1 2 3; do
    mkdir -p "$folder/part$part/2026/03"
    for day in 1 2 3 4; do
        printf 'station,celsius\nA,%s\nB,%s\n' "$((part + day))" "$((part * day))" \
            > "$folder/part$part/2026/03/day-$part$day.csv"
    done
    printf 'A,Zurich\nB,Oslo\n' > "$folder/part$part/stations.csv"
    printf 'Written by machine %s.\n' "$part" > "$folder/part$part/notes.txt"
done
(cd "$folder" && find part1 part2 part3 -type f | sort)

say "2. Start Temporal, its Web UI, and a worker with Spark."
run datamon up --detach

say "3. Make a repo and open a diamond."
run datamon repo create --repo weather --description "Daily weather"
diamond=$(run datamon diamond initialize --repo weather --tag demo)
echo "$diamond"

say "4. Every machine uploads its part, all at once, without talking to the others."
pids=()
for part in 1 2 3; do
    run datamon diamond add --repo weather --diamond "$diamond" --path "$folder/part$part" --split-tag "machine-$part" &
    pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid"; done
run datamon diamond split list --repo weather --diamond "$diamond"

say "5. Commit: one immutable bundle, or nothing."
run datamon diamond commit --repo weather --diamond "$diamond" --message "March, first days" --label latest
run datamon bundle list --repo weather

say "6. Download it. The last upload of notes.txt won; the other versions are kept under .conflicts."
run datamon bundle download --repo weather --label latest --destination "$folder/march"
(cd "$folder/march" && find . -path ./.datamon -prune -o -type f -print | sort | sed 's|^\./|    |')
for file in "$folder"/march/notes.txt "$folder"/march/.conflicts/*/notes.txt; do
    echo "${file#"$folder"/march/}: $(cat "$file")"
done

say "7. The whole story is in Temporal's Web UI:"
ui=$(datamon status --format json | sed -n 's/^ *"ui": "\(.*\)",$/\1/p')
echo "    $ui/namespaces/default/workflows/diamond%2Fweather%2F$diamond"
[ -n "${KEEP:-}" ] || echo "    (stopped in a moment; KEEP=1 make demo leaves it running)"
