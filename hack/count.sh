#!/usr/bin/env bash
# Adds up the results in a log of `cargo test` and `go test -v`, as `N passed, N failed, N skipped`; fails when no test ran.
set -euo pipefail
awk '
    /^test result: / {
        passed += $4; failed += $6; skipped += $8
        if ($4 + $6 > 0) binaries++
    }
    /^--- PASS: / { passed++; go++ }
    /^--- FAIL: / { failed++; go++ }
    /^--- SKIP: / { skipped++ }
    END {
        printf "\n%d test binaries of Rust, %d tests of Go\n%d passed, %d failed, %d skipped\n", binaries, go, passed, failed, skipped
        exit passed == 0
    }
' "$1"
