// Package suite is the official conformance suite as one program for any cluster: `go test -c`, then conformance/run.sh.
package suite

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/gateway-api/conformance"
	"sigs.k8s.io/gateway-api/conformance/tests"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
	"sigs.k8s.io/yaml"

	"portolan.dev/conformance/outcomes"
)

var summary = flag.String("summary", "", "a file for a line per test as it ends, and the results (default: standard output)")

// TestConformance takes the flags of upstream's own test of that name. It differs in what it says about the results alone.
func TestConformance(t *testing.T) {
	if flag.Lookup("report-output").Value.String() == "" {
		t.Skip("needs a cluster and a place for the report: conformance/run.sh starts it")
	}
	options := conformance.DefaultOptions(t)
	var out io.Writer = os.Stdout
	if *summary != "" {
		file, err := os.OpenFile(*summary, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
		require.NoError(t, err)
		t.Cleanup(func() { _ = file.Close() })
		out = file
	}
	noted := outcomes.Outcomes{Progress: out}
	options.Hook = noted.Record
	require.NoError(t, options.Implementation.Validate())
	run, err := suite.NewConformanceTestSuite(options)
	require.NoError(t, err)

	t.Cleanup(func() {
		report, err := run.Report()
		require.NoError(t, err)
		text, err := yaml.Marshal(report)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(options.ReportOutputPath), 0o755))
		require.NoError(t, os.WriteFile(options.ReportOutputPath, text, 0o644))
		noted.Print(out, report)
	})
	run.Setup(t, tests.ConformanceTests)
	require.NoError(t, run.Run(t, tests.ConformanceTests))
}
