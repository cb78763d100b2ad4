package process

import (
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"portolan.dev/conformance/standalone/storage"
)

// CopyStatuses from Portolan into the store, every 50 ms, until the returned function is called. In a cluster Portolan itself writes
// them.
func (p *Portolan) CopyStatuses(store *storage.Store) (stop func()) {
	done := make(chan struct{})
	var stopped sync.WaitGroup
	stopped.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
			}
			objects, err := p.Objects()
			if err != nil {
				continue // a test that waits for a status will tell
			}
			for _, object := range objects {
				copyStatus(store, object)
			}
		}
	})
	return func() { close(done); stopped.Wait() }
}

func copyStatus(store *storage.Store, object storage.Object) {
	meta := unstructured.Unstructured{Object: object}
	group, _, found := strings.Cut(meta.GetAPIVersion(), "/")
	if !found {
		group = ""
	}
	kind, ok := store.KindNamed(group, meta.GetKind())
	if !ok || !kind.HasStatus || object["status"] == nil {
		return
	}
	key := storage.Key{Group: group, Plural: kind.Plural, Namespace: meta.GetNamespace(), Name: meta.GetName()}
	if !kind.Namespaced {
		key.Namespace = ""
	}
	store.SetStatus(key, meta.GetGeneration(), object["status"])
}
