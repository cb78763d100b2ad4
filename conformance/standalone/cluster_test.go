package standalone

import (
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"portolan.dev/conformance/standalone/kubelet"
	"portolan.dev/conformance/standalone/process"
	"portolan.dev/conformance/standalone/storage"
)

// cluster is what the suite takes for one.
type cluster struct {
	store    *storage.Store
	config   *rest.Config
	portolan *process.Portolan
	program  string
	// explained counts the requests of which `portolan explain` was asked.
	explained atomic.Int64
}

func startCluster(t *testing.T, program string) *cluster {
	t.Helper()
	kinds, definitions, err := storage.CustomResources(crdDirectory(t, "standard"))
	require.NoError(t, err)
	// Sockets have short paths, so not below t.TempDir, which carries the test's name.
	work, err := os.MkdirTemp("", "conformance-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(work) })
	manifests := t.TempDir()
	store := storage.NewStore(append(storage.BuiltIn(), kinds...), &storage.Directory{Path: manifests})
	for _, definition := range definitions {
		name := definition["metadata"].(map[string]any)["name"].(string)
		_, err := store.Create(storage.Key{Group: "apiextensions.k8s.io", Plural: "customresourcedefinitions", Name: name}, definition)
		require.NoError(t, err)
	}

	echo, err := kubelet.BuildEcho()
	require.NoError(t, err)
	node := kubelet.Start(store, echo, work)
	t.Cleanup(node.Stop)
	server := httptest.NewServer(&storage.Server{Store: store, Logs: node.Logs})
	t.Cleanup(server.Close)

	portolan, err := process.Start(program, manifests, work)
	require.NoError(t, err)
	t.Cleanup(func() {
		ended := portolan.Ended()
		portolan.Stop()
		if ended {
			t.Error("portolan ended during the run")
		}
		if t.Failed() {
			if path := os.Getenv("PORTOLAN_LOG"); path != "" {
				text, _ := os.ReadFile(portolan.LogFile)
				_ = os.WriteFile(path, text, 0o600)
			}
			t.Logf("the end of portolan's log:\n%s", portolan.Tail(8000))
		}
	})
	t.Cleanup(portolan.CopyStatuses(store))

	return &cluster{store: store, portolan: portolan, program: program, config: &rest.Config{
		Host:          server.URL,
		QPS:           -1, // no throttling
		Timeout:       10 * time.Second,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"}, // the storage speaks no protobuf
	}}
}
