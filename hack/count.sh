#!/usr/bin/env bash
# Adds up the results in a log of `cargo test` (and fails when it ran none): one line for each test binary, then `N passed, N failed`.
set -euo pipefail
awk '
    /^ +Running / || /^ +Doc-tests / { sub(/^ +/, ""); sub(/ \(.*/, ""); what = $0 }
    /^test result: / {
        passed += $4; failed += $6; skipped += $8
        if ($4 + $6 > 0) binaries++
    }
    END {
        printf "\ntest binaries: %d\n%d passed, %d failed, %d skipped\n", binaries, passed, failed, skipped
        exit passed == 0
    }
' "$1"
