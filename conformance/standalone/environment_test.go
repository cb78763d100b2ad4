package standalone

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	update = flag.Bool("update", false, "write the goldens, covered.txt and manifests.txt instead of comparing with them")
	only   = flag.String("only", "", "a regular expression of the tests of the suite to run; covered.txt is then not looked at")
)

const (
	className      = "gateway-conformance"
	controllerName = "portolan.dev/gateway-controller"
)

// binaries that are judged: Portolan and Envoy.
func binaries(t *testing.T) (portolan, envoy string) {
	t.Helper()
	if testing.Short() {
		t.Skip("not in -short: needs PORTOLAN and PORTOLAN_ENVOY")
	}
	portolan, envoy = os.Getenv("PORTOLAN"), os.Getenv("PORTOLAN_ENVOY")
	require.FileExists(t, portolan, "PORTOLAN is the path of the binary to test: run.sh sets it")
	require.FileExists(t, envoy, "PORTOLAN_ENVOY is the path of Envoy: run.sh sets it")
	portolan, err := filepath.Abs(portolan)
	require.NoError(t, err)
	return portolan, envoy
}

// crdDirectory of the Gateway API's module, which carries them.
func crdDirectory(t *testing.T, channel string) string {
	t.Helper()
	output, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	require.NoError(t, err)
	return filepath.Join(strings.TrimSpace(string(output)), "config", "crd", channel)
}
