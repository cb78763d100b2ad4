package storage_test

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/apis/v1beta1"
	"sigs.k8s.io/yaml"

	"portolan.dev/conformance/standalone/storage"
)

// start a storage with the standard CRDs and the client that the suite uses.
func start(t *testing.T) (*storage.Store, client.Client, string) {
	t.Helper()
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	require.NoError(t, err)
	kinds, _, err := storage.CustomResources(filepath.Join(strings.TrimSpace(string(module)), "config/crd/standard"))
	require.NoError(t, err)
	directory := t.TempDir()
	store := storage.NewStore(append(storage.BuiltIn(), kinds...), &storage.Directory{Path: directory})
	server := httptest.NewServer(&storage.Server{Store: store})
	t.Cleanup(server.Close)
	require.NoError(t, gatewayv1.Install(scheme.Scheme))
	require.NoError(t, v1beta1.Install(scheme.Scheme))
	kube, err := client.New(&rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, client.Options{})
	require.NoError(t, err)
	return store, kube, directory
}

func gateway() *gatewayv1.Gateway {
	return &gatewayv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "gw", Labels: map[string]string{"a": "b"}},
		Spec: gatewayv1.GatewaySpec{
			GatewayClassName: "class",
			Listeners:        []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}},
		},
		Status: gatewayv1.GatewayStatus{Addresses: []gatewayv1.GatewayStatusAddress{{Value: "set by a client"}}},
	}
}

var key = client.ObjectKey{Namespace: "ns", Name: "gw"}

func TestObjectsAreCreatedWithMetadataAndDefaults(t *testing.T) {
	_, kube, _ := start(t)
	require.NoError(t, kube.Create(context.Background(), gateway()))
	var got gatewayv1.Gateway
	require.NoError(t, kube.Get(context.Background(), key, &got))
	assert.EqualValues(t, 1, got.Generation)
	assert.NotEmpty(t, got.UID)
	assert.False(t, got.CreationTimestamp.IsZero())
	require.NotNil(t, got.Spec.Listeners[0].AllowedRoutes, "a default of the CRD")
	assert.Equal(t, gatewayv1.NamespacesFromSame, *got.Spec.Listeners[0].AllowedRoutes.Namespaces.From)
	assert.Empty(t, got.Status.Addresses, "a client cannot create a status")
	assert.True(t, apierrors.IsAlreadyExists(kube.Create(context.Background(), gateway())))
}

func TestOnlyChangesOfTheSpecCountAsGeneration(t *testing.T) {
	store, kube, _ := start(t)
	require.NoError(t, kube.Create(context.Background(), gateway()))
	change := func(edit func(*gatewayv1.Gateway)) int64 {
		var old gatewayv1.Gateway
		require.NoError(t, kube.Get(context.Background(), key, &old))
		edited := old.DeepCopy()
		edit(edited)
		require.NoError(t, kube.Patch(context.Background(), edited, client.MergeFrom(&old)))
		return edited.Generation
	}
	assert.EqualValues(t, 1, change(func(g *gatewayv1.Gateway) { g.Labels["c"] = "d" }))
	assert.EqualValues(t, 2, change(func(g *gatewayv1.Gateway) { g.Spec.Listeners[0].Port = 81 }))

	full := storage.Key{Group: "gateway.networking.k8s.io", Plural: "gateways", Namespace: "ns", Name: "gw"}
	status := func() int {
		var got gatewayv1.Gateway
		require.NoError(t, kube.Get(context.Background(), key, &got))
		return len(got.Status.Addresses)
	}
	addresses := storage.Object{"addresses": []any{storage.Object{"value": "127.0.0.2"}}}
	store.SetStatus(full, 1, addresses)
	assert.Equal(t, 0, status(), "a status of an older generation is not shown")
	store.SetStatus(full, 2, addresses)
	assert.Equal(t, 1, status())
	assert.EqualValues(t, 3, change(func(g *gatewayv1.Gateway) { g.Spec.Listeners[0].Port = 82 }))
	assert.Equal(t, 1, status(), "a change of the spec keeps the status")

	require.NoError(t, kube.Delete(context.Background(), gateway()))
	again := gateway()
	require.NoError(t, kube.Create(context.Background(), again))
	assert.EqualValues(t, 4, again.Generation, "never one that a status of the deleted object could carry")
	assert.Equal(t, 0, status())
}

func TestObjectsAreFilesOfTheDirectory(t *testing.T) {
	_, kube, directory := start(t)
	require.NoError(t, kube.Create(context.Background(), gateway()))
	file := filepath.Join(directory, "ns", "gateway-gw.yaml")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var written gatewayv1.Gateway
	require.NoError(t, yaml.UnmarshalStrict(text, &written))
	assert.EqualValues(t, 80, written.Spec.Listeners[0].Port)
	assert.EqualValues(t, 1, written.Generation)
	assert.NotContains(t, string(text), "status:")

	require.NoError(t, kube.Create(context.Background(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod"}}))
	entries, err := os.ReadDir(filepath.Join(directory, "ns"))
	require.NoError(t, err)
	assert.Len(t, entries, 1, "a pod is none of Portolan's objects")

	require.NoError(t, kube.Delete(context.Background(), gateway()))
	assert.NoFileExists(t, file)
}

func TestNamespacesTakeTheirObjectsWithThem(t *testing.T) {
	_, kube, directory := start(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}
	require.NoError(t, kube.Create(context.Background(), namespace))
	require.NoError(t, kube.Create(context.Background(), gateway()))
	require.NoError(t, kube.Delete(context.Background(), namespace))
	assert.True(t, apierrors.IsNotFound(kube.Get(context.Background(), key, &gatewayv1.Gateway{})))
	assert.NoFileExists(t, filepath.Join(directory, "ns", "gateway-gw.yaml"))
}

func TestListsSelectByNamespaceAndLabel(t *testing.T) {
	_, kube, _ := start(t)
	for _, name := range []string{"x", "y"} {
		object := gateway()
		object.Name, object.Labels["name"] = name, name
		require.NoError(t, kube.Create(context.Background(), object))
	}
	other := gateway()
	other.Namespace = "other"
	require.NoError(t, kube.Create(context.Background(), other))
	var list gatewayv1.GatewayList
	require.NoError(t, kube.List(context.Background(), &list, client.InNamespace("ns")))
	assert.Len(t, list.Items, 2)
	require.NoError(t, kube.List(context.Background(), &list, client.MatchingLabels{"name": "y"}))
	require.Len(t, list.Items, 1)
	assert.Equal(t, "y", list.Items[0].Name)
}

func TestVersionsOfAKindAreOneObject(t *testing.T) {
	_, kube, _ := start(t)
	require.NoError(t, kube.Create(context.Background(), gateway()))
	var old v1beta1.Gateway
	require.NoError(t, kube.Get(context.Background(), key, &old))
	assert.EqualValues(t, 80, old.Spec.Listeners[0].Port)
}
