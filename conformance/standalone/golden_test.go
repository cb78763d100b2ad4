package standalone

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/gateway-api/conformance"
	"sigs.k8s.io/yaml"

	"portolan.dev/conformance/standalone/storage"
)

func compareStatuses(t *testing.T, name string, manifests []string, store *storage.Store) {
	t.Helper()
	keys := objectsWithStatus(t, manifests, store)
	if len(keys) == 0 {
		return
	}
	actual := settled(t, keys, store)
	path := filepath.Join("testdata", name+".yaml")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(actual), 0o644))
		return
	}
	expected, err := os.ReadFile(path)
	require.NoError(t, err, "run.sh -update writes goldens")
	assert.Equal(t, string(expected), actual, "the statuses differ from %s", path)
}

// settled statuses: every condition speaks of its object's generation, no proxy is waited for, and nothing changes for a while.
func settled(t *testing.T, keys []storage.Key, store *storage.Store) string {
	t.Helper()
	last, unchanged := "", 0
	for range 200 {
		text, current := render(t, keys, store)
		if current && text == last {
			unchanged++
		} else {
			unchanged = 0
		}
		if last = text; unchanged == 5 {
			return text
		}
		time.Sleep(25 * time.Millisecond)
	}
	t.Errorf("the statuses do not settle:\n%s", last)
	return last
}

// objectsWithStatus in the manifests, in their order.
func objectsWithStatus(t *testing.T, manifests []string, store *storage.Store) []storage.Key {
	t.Helper()
	var keys []storage.Key
	for _, object := range readManifests(t, manifests) {
		group := object.GroupVersionKind().Group
		if kind, ok := store.KindNamed(group, object.GetKind()); ok && kind.HasStatus {
			keys = append(keys, storage.Key{Group: group, Plural: kind.Plural, Namespace: object.GetNamespace(), Name: object.GetName()})
		}
	}
	return keys
}

func readManifests(t *testing.T, files []string) []unstructured.Unstructured {
	t.Helper()
	var objects []unstructured.Unstructured
	for _, file := range files {
		text, err := fs.ReadFile(conformance.Manifests, file)
		require.NoError(t, err)
		objects = append(objects, decodeAll(text)...)
	}
	return objects
}

// render what is the same in every run: no times, no messages (they are for people, and may be improved), no addresses. The second
// result: whether all conditions are of the present generations and final.
func render(t *testing.T, keys []storage.Key, store *storage.Store) (string, bool) {
	t.Helper()
	var text strings.Builder
	current := true
	for _, key := range keys {
		fmt.Fprintf(&text, "---\n# %s %s/%s\n", key.Plural, key.Namespace, key.Name)
		object, err := store.Get(key)
		if err != nil {
			text.WriteString("absent: true\n")
			continue
		}
		generation := (&unstructured.Unstructured{Object: object}).GetGeneration()
		status, _ := object["status"].(map[string]any)
		current = current && status != nil
		delete(status, "addresses")
		reduce(status, generation, &current)
		rendered, err := yaml.Marshal(status)
		require.NoError(t, err)
		text.Write(rendered)
	}
	return text.String(), current
}

// reduce conditions to "type status reason", ordered, wherever they stand in a status.
func reduce(value any, generation int64, current *bool) {
	switch value := value.(type) {
	case map[string]any:
		if conditions, ok := value["conditions"].([]any); ok {
			lines := []any{}
			for _, condition := range conditions {
				condition, _ := condition.(map[string]any)
				*current = *current && condition["observedGeneration"] == generation && condition["reason"] != "Pending"
				lines = append(lines, fmt.Sprintf("%s=%s %s", condition["type"], condition["status"], condition["reason"]))
			}
			sort.Slice(lines, func(a, b int) bool { return lines[a].(string) < lines[b].(string) })
			value["conditions"] = lines
		}
		for _, inner := range value {
			reduce(inner, generation, current)
		}
	case []any:
		for _, inner := range value {
			reduce(inner, generation, current)
		}
	}
}
