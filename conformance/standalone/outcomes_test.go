package standalone

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	confv1 "sigs.k8s.io/gateway-api/conformance/apis/v1"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
	"sigs.k8s.io/gateway-api/pkg/features"
)

const (
	coveredFile = "covered.txt"
	// atLeast so many tests are to be covered.
	atLeast = 60
)

// outcomes of the suite's tests.
type outcomes struct {
	supported suite.FeaturesSet

	mutex          sync.Mutex
	passed, failed []string
	notRun         map[string]string // test to reason
}

func newOutcomes() *outcomes {
	return &outcomes{notRun: map[string]string{}}
}

// record is the suite's hook, called when a test has ended.
func (o *outcomes) record(t *testing.T, test suite.ConformanceTest, _ *suite.ConformanceTestSuite) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	switch {
	case t.Failed():
		o.failed = append(o.failed, test.ShortName)
	case t.Skipped():
		o.notRun[test.ShortName] = o.reason(test.Features)
	default:
		o.passed = append(o.passed, test.ShortName)
	}
}

func (o *outcomes) reason(needs []features.FeatureName) string {
	var missing []string
	for _, feature := range needs {
		if !o.supported.Has(feature) {
			missing = append(missing, string(feature))
		}
	}
	if len(missing) == 0 {
		return "the test skips itself"
	}
	return "not claimed: " + strings.Join(missing, ", ")
}

// print everything, then the counts.
func (o *outcomes) print(report *confv1.ConformanceReport) {
	sort.Strings(o.passed)
	sort.Strings(o.failed)
	names := make([]string, 0, len(o.notRun))
	for name := range o.notRun {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Printf("not run  %-60s %s\n", name, o.notRun[name])
	}
	for _, name := range o.passed {
		fmt.Printf("passed   %s\n", name)
	}
	for _, name := range o.failed {
		fmt.Printf("FAILED   %s\n", name)
	}
	for _, profile := range report.ProfileReports {
		fmt.Printf("%s: core %d passed, %d failed; ", profile.Name, profile.Core.Statistics.Passed, profile.Core.Statistics.Failed)
		if profile.Extended != nil {
			fmt.Printf("extended %d passed, %d failed, %d features of %d", profile.Extended.Statistics.Passed, profile.Extended.Statistics.Failed,
				len(profile.Extended.SupportedFeatures), len(profile.Extended.SupportedFeatures)+len(profile.Extended.UnsupportedFeatures))
		}
		fmt.Println()
	}
	fmt.Printf("conformance suite: %d passed, %d failed, %d not run\n", len(o.passed), len(o.failed), len(o.notRun))
}

// compare with covered.txt: what has passed once must go on passing. A golden whose test does not pass has no meaning left.
func (o *outcomes) compare(t *testing.T) {
	goldens, err := filepath.Glob("testdata/*.yaml")
	require.NoError(t, err)
	for _, golden := range goldens {
		if name := strings.TrimSuffix(filepath.Base(golden), ".yaml"); *update && !slices.Contains(o.passed, name) {
			require.NoError(t, os.Remove(golden))
		} else {
			assert.True(t, slices.Contains(o.passed, name), "the test of %s is to run and to pass", golden)
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(coveredFile, []byte(strings.Join(o.passed, "\n")+"\n"), 0o644))
	}
	text, err := os.ReadFile(coveredFile)
	require.NoError(t, err)
	covered := strings.Fields(string(text))
	assert.GreaterOrEqual(t, len(covered), atLeast, "tests in %s", coveredFile)
	assert.Empty(t, without(covered, o.passed), "listed in %s, but not run or not passed", coveredFile)
	assert.Empty(t, without(o.passed, covered), "passed, but not listed in %s (run.sh -update)", coveredFile)
}

// without: those of all that are not among others.
func without(all, others []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(one string) bool { return slices.Contains(others, one) })
}
