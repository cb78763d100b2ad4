// Package outcomes notes what became of each test of the conformance suite, and says it in words.
package outcomes

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	confv1 "sigs.k8s.io/gateway-api/conformance/apis/v1"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
	"sigs.k8s.io/gateway-api/pkg/features"
)

// Outcomes of the suite's tests.
type Outcomes struct {
	// Progress gets a line for each test as it ends, unless it is nil.
	Progress io.Writer

	mutex          sync.Mutex
	Passed, Failed []string
	NotRun         map[string]string // test to reason
}

// Record is the suite's hook, called when a test has ended.
func (o *Outcomes) Record(t *testing.T, test suite.ConformanceTest, run *suite.ConformanceTestSuite) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	switch {
	case t.Failed():
		o.Failed = append(o.Failed, test.ShortName)
		o.progress("FAILED", test.ShortName)
	case t.Skipped():
		if o.NotRun == nil {
			o.NotRun = map[string]string{}
		}
		o.NotRun[test.ShortName] = reason(test.Features, run.SupportedFeatures)
	default:
		o.Passed = append(o.Passed, test.ShortName)
		o.progress("passed", test.ShortName)
	}
}

func (o *Outcomes) progress(outcome, test string) {
	if o.Progress != nil {
		fmt.Fprintf(o.Progress, "%s   %s\n", outcome, test)
	}
}

func reason(needs []features.FeatureName, supported suite.FeaturesSet) string {
	var missing []string
	for _, feature := range needs {
		if !supported.Has(feature) {
			missing = append(missing, string(feature))
		}
	}
	if len(missing) == 0 {
		return "the test skips itself, or was not asked for"
	}
	return "not claimed: " + strings.Join(missing, ", ")
}

// Print everything, then the counts.
func (o *Outcomes) Print(out io.Writer, report *confv1.ConformanceReport) {
	slices.Sort(o.Passed)
	slices.Sort(o.Failed)
	names := make([]string, 0, len(o.NotRun))
	for name := range o.NotRun {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(out, "not run  %-60s %s\n", name, o.NotRun[name])
	}
	if o.Progress == nil {
		for _, name := range o.Passed {
			fmt.Fprintf(out, "passed   %s\n", name)
		}
	}
	for _, name := range o.Failed {
		fmt.Fprintf(out, "FAILED   %s\n", name)
	}
	for _, profile := range report.ProfileReports {
		core := profile.Core
		fmt.Fprintf(out, "%s: core %d passed, %d failed", profile.Name, core.Statistics.Passed, core.Statistics.Failed)
		if extended := profile.Extended; extended != nil {
			claimed, not := len(extended.SupportedFeatures), len(extended.UnsupportedFeatures)
			fmt.Fprintf(out, "; extended %d passed, %d failed, %d features of %d", extended.Statistics.Passed, extended.Statistics.Failed, claimed, claimed+not)
			if not > 0 {
				fmt.Fprintf(out, "\n%s: not claimed: %s", profile.Name, strings.Join(extended.UnsupportedFeatures, ", "))
			}
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintf(out, "conformance suite: %d passed, %d failed, %d not run\n", len(o.Passed), len(o.Failed), len(o.NotRun))
}
