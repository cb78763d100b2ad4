package standalone

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/gateway-api/conformance"
	"sigs.k8s.io/gateway-api/conformance/utils/config"
	"sigs.k8s.io/gateway-api/conformance/utils/kubernetes"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"

	"portolan.dev/conformance/standalone/kubelet"
	"portolan.dev/conformance/standalone/storage"
)

// TestBackends shows that what is played around Portolan works without it: the suite's base Deployments become echo servers that the
// EndpointSlices of their Services lead to, and whose logs can be read.
func TestBackends(t *testing.T) {
	if testing.Short() {
		t.Skip("not in -short: builds the echo server")
	}
	kinds, _, err := storage.CustomResources(crdDirectory(t, "standard"))
	require.NoError(t, err)
	store := storage.NewStore(append(storage.BuiltIn(), kinds...), &storage.Directory{Path: t.TempDir()})
	echo, err := kubelet.BuildEcho()
	require.NoError(t, err)
	node := kubelet.Start(store, echo, t.TempDir())
	defer node.Stop()
	server := httptest.NewServer(&storage.Server{Store: store, Logs: node.Logs})
	defer server.Close()
	access := &rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	kube, err := client.New(access, client.Options{})
	require.NoError(t, err)
	clients, err := clientset.NewForConfig(access)
	require.NoError(t, err)
	ctx := context.Background()

	applier := kubernetes.Applier{ManifestFS: []fs.FS{&conformance.Manifests}, GatewayClass: className}
	applier.MustApplyWithCleanup(t, kube, config.DefaultTimeoutConfig(), "base/manifests.yaml", false)
	for namespace, secrets := range map[string][]string{
		suite.InfrastructureNamespace: {"tls-checks-certificate", "tls-passthrough-checks-certificate"},
		suite.AppBackendNamespace:     {"tls-passthrough-checks-certificate"},
	} {
		for _, name := range secrets {
			require.NoError(t, kube.Create(ctx, kubernetes.MustCreateSelfSignedCertSecret(t, namespace, name, []string{"abc.example.com"})))
		}
	}
	ready := func() bool {
		var pods corev1.PodList
		require.NoError(t, kube.List(ctx, &pods))
		count := 0
		for _, pod := range pods.Items {
			if len(pod.Status.Conditions) > 0 && pod.Status.Conditions[0].Status == corev1.ConditionTrue {
				count++
			}
		}
		return count == 22 // of 23: there is no DNS server
	}
	require.Eventually(t, ready, 20*time.Second, 50*time.Millisecond, "all pods are ready")

	var slices discoveryv1.EndpointSliceList
	require.Eventually(t, func() bool {
		require.NoError(t, kube.List(ctx, &slices, client.InNamespace(suite.InfrastructureNamespace),
			client.MatchingLabels{discoveryv1.LabelServiceName: suite.InfraBackendServiceNameV1}))
		return len(slices.Items) == 1 && len(slices.Items[0].Endpoints) == 2 && *slices.Items[0].Endpoints[1].Conditions.Ready
	}, 5*time.Second, 20*time.Millisecond, "the EndpointSlice has both ready pods")
	slice := slices.Items[0]
	require.Len(t, slice.Ports, 3)
	assert.Equal(t, "first-port", *slice.Ports[0].Name)
	for _, endpoint := range slice.Endpoints {
		response, err := http.Get(fmt.Sprintf("http://%s:%d/hello", endpoint.Addresses[0], *slice.Ports[0].Port))
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		require.NoError(t, err)
		var answer struct{ Namespace, Pod string }
		require.NoError(t, json.Unmarshal(body, &answer))
		assert.Equal(t, endpoint.TargetRef.Name, answer.Pod)
		assert.True(t, strings.HasPrefix(answer.Pod, "infra-backend-v1-"))
		assert.Equal(t, suite.InfrastructureNamespace, answer.Namespace)
	}
	logs, err := kubernetes.DumpEchoLogs(ctx, suite.InfrastructureNamespace, suite.InfraBackendServiceNameV1, kube, clients, time.Now().Add(-time.Minute))
	require.NoError(t, err)
	assert.Contains(t, strings.Join(logs, "\n"), "Echoing back request made to /hello to client")

	require.NoError(t, store.Delete(storage.Key{Group: "apps", Plural: "deployments", Namespace: suite.InfrastructureNamespace, Name: "infra-backend-v1"}))
	require.Eventually(t, func() bool {
		require.NoError(t, kube.List(ctx, &slices, client.MatchingLabels{discoveryv1.LabelServiceName: suite.InfraBackendServiceNameV1}))
		return len(slices.Items[0].Endpoints) == 0
	}, 5*time.Second, 20*time.Millisecond, "a deleted Deployment leaves no endpoints")
}
