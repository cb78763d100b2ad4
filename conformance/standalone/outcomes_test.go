package standalone

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"portolan.dev/conformance/outcomes"
)

const (
	coveredFile = "covered.txt"
	// atLeast so many tests are to be covered.
	atLeast = 60
)

// compare with covered.txt: what has passed once must go on passing. A golden whose test does not pass has no meaning left.
func compare(t *testing.T, o *outcomes.Outcomes) {
	goldens, err := filepath.Glob("testdata/*.yaml")
	require.NoError(t, err)
	for _, golden := range goldens {
		if name := strings.TrimSuffix(filepath.Base(golden), ".yaml"); *update && !slices.Contains(o.Passed, name) {
			require.NoError(t, os.Remove(golden))
		} else {
			assert.True(t, slices.Contains(o.Passed, name), "the test of %s is to run and to pass", golden)
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(coveredFile, []byte(strings.Join(o.Passed, "\n")+"\n"), 0o644))
	}
	text, err := os.ReadFile(coveredFile)
	require.NoError(t, err)
	covered := strings.Fields(string(text))
	assert.GreaterOrEqual(t, len(covered), atLeast, "tests in %s", coveredFile)
	assert.Empty(t, without(covered, o.Passed), "listed in %s, but not run or not passed", coveredFile)
	assert.Empty(t, without(o.Passed, covered), "passed, but not listed in %s (run.sh -update)", coveredFile)
}

// without: those of all that are not among others.
func without(all, others []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(one string) bool { return slices.Contains(others, one) })
}
