package standalone

import (
	"testing"

	"sigs.k8s.io/gateway-api/conformance/utils/suite"
)

// withMore adds to a test, when it and its subtests have passed and before its objects go, what the suite does not look at: where it
// sent requests, whether `portolan explain` says of each what Envoy did; where it sent none, whether the whole statuses of its objects
// are those of testdata/<test>.yaml.
func (c *cluster) withMore(test suite.ConformanceTest, traffic *traffic) suite.ConformanceTest {
	run := test.Test
	name, manifests := test.ShortName, test.Manifests
	test.Test = func(t *testing.T, s *suite.ConformanceTestSuite) {
		traffic.forget()
		// The last registered is the first to run, and the manifests' own were registered when they were applied.
		t.Cleanup(func() {
			switch {
			case t.Failed() || t.Skipped():
			case traffic.sent() == 0:
				compareStatuses(t, name, manifests, c.store)
			default:
				c.compareExplanations(t, traffic)
			}
		})
		run(t, s)
	}
	return test
}
