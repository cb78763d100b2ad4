// Package storage plays the one part of a Kubernetes API server that the conformance suite cannot do without: it stores objects.
//
//	suite ──HTTP──▶ Server ──▶ Store ──▶ one manifest file per object in Portolan's directory
//	                             ▲
//	                             └── statuses, read from Portolan's admin endpoint
//
// It sets uid, creationTimestamp, generation and the CRDs' defaults, keeps status apart from the rest, and deletes a namespace with
// what is in it. It has no validation (Portolan's reader does that), no admission, no watches, no access control, no optimistic
// locking: there is one client.
package storage

import (
	"reflect"
	"sort"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// Object in the form of its JSON.
type Object = map[string]any

// Key of an object: the same for all versions of its kind.
type Key struct {
	Group, Plural, Namespace, Name string
}

// Store holds every object.
type Store struct {
	mutex       sync.Mutex
	kinds       map[[2]string]*Kind // by group and plural
	objects     map[Key]Object
	generations map[Key]int64
	version     int64
	written     int64
	directory   *Directory
	changed     chan struct{}
}

// NewStore of these kinds, whose manifests are mirrored into directory.
func NewStore(kinds []*Kind, directory *Directory) *Store {
	store := &Store{
		kinds:       map[[2]string]*Kind{},
		objects:     map[Key]Object{},
		generations: map[Key]int64{},
		directory:   directory,
		changed:     make(chan struct{}, 1),
	}
	for _, kind := range kinds {
		store.kinds[[2]string{kind.Group, kind.Plural}] = kind
	}
	return store
}

// Changed receives after one or more writes.
func (s *Store) Changed() <-chan struct{} { return s.changed }

// Written counts the changes of manifests, so that two moments with the same count have the same manifests.
func (s *Store) Written() int64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.written
}

// Manifests is the directory they are in.
func (s *Store) Manifests() string { return s.directory.Path }

// Kind that is served under this group and plural.
func (s *Store) Kind(group, plural string) (*Kind, bool) {
	kind, ok := s.kinds[[2]string{group, plural}]
	return kind, ok
}

// KindNamed finds a kind by the name that stands in manifests.
func (s *Store) KindNamed(group, name string) (*Kind, bool) {
	for _, kind := range s.kinds {
		if kind.Group == group && kind.Kind == name {
			return kind, true
		}
	}
	return nil, false
}

// Get one object.
func (s *Store) Get(key Key) (Object, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	object, ok := s.objects[key]
	if !ok {
		return nil, notFound(key)
	}
	return runtime.DeepCopyJSON(object), nil
}

// List the objects of a kind in a namespace ("" is all), ordered by namespace and name.
func (s *Store) List(group, plural, namespace string) []Object {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var keys []Key
	for key := range s.objects {
		if key.Group == group && key.Plural == plural && (namespace == "" || key.Namespace == namespace) {
			keys = append(keys, key)
		}
	}
	sort.Slice(keys, func(a, b int) bool {
		if keys[a].Namespace != keys[b].Namespace {
			return keys[a].Namespace < keys[b].Namespace
		}
		return keys[a].Name < keys[b].Name
	})
	objects := make([]Object, 0, len(keys))
	for _, key := range keys {
		objects = append(objects, runtime.DeepCopyJSON(s.objects[key]))
	}
	return objects
}

// Create an object.
func (s *Store) Create(key Key, object Object) (Object, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if _, ok := s.objects[key]; ok {
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{Group: key.Group, Resource: key.Plural}, key.Name)
	}
	if s.kinds[[2]string{key.Group, key.Plural}].HasStatus {
		delete(object, "status")
	}
	meta := unstructured.Unstructured{Object: object}
	meta.SetNamespace(key.Namespace)
	meta.SetName(key.Name)
	meta.SetUID(uuid.NewUUID())
	_ = unstructured.SetNestedField(object, time.Now().UTC().Format(time.RFC3339), "metadata", "creationTimestamp")
	return s.put(key, object, true)
}

// Replace all of an object but its status, or (status) its status only.
func (s *Store) Replace(key Key, object Object, status bool) (Object, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	old, ok := s.objects[key]
	if !ok {
		return nil, notFound(key)
	}
	if status {
		merged := runtime.DeepCopyJSON(old)
		setOrDelete(merged, "status", object["status"])
		return s.put(key, merged, false)
	}
	if s.kinds[[2]string{key.Group, key.Plural}].HasStatus {
		setOrDelete(object, "status", old["status"])
	}
	was, is := unstructured.Unstructured{Object: old}, unstructured.Unstructured{Object: object}
	is.SetUID(was.GetUID())
	is.SetCreationTimestamp(was.GetCreationTimestamp())
	is.SetGeneration(was.GetGeneration())
	return s.put(key, object, !sameSpec(old, object))
}

// SetStatus of an object, unless the status speaks of another generation than the stored one: it would be that of an object of the same
// name that is gone, or of a state that was overtaken.
func (s *Store) SetStatus(key Key, generation int64, status any) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	old, ok := s.objects[key]
	if !ok || s.generations[key] != generation || reflect.DeepEqual(old["status"], status) {
		return
	}
	object := runtime.DeepCopyJSON(old)
	setOrDelete(object, "status", status)
	_, _ = s.put(key, object, false)
}

// Delete an object; a namespace with everything in it.
func (s *Store) Delete(key Key) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if _, ok := s.objects[key]; !ok {
		return notFound(key)
	}
	if key.Group == "" && key.Plural == "namespaces" {
		for other := range s.objects {
			if other.Namespace == key.Name {
				s.remove(other)
			}
		}
	}
	s.remove(key)
	return nil
}

func (s *Store) remove(key Key) {
	delete(s.objects, key)
	kind := s.kinds[[2]string{key.Group, key.Plural}]
	s.directory.remove(kind, key)
	if kind.Manifest {
		s.written++
	}
	s.signal()
}

// put stores an object. Generations go on counting when a name is deleted and made again (an API server begins at 1): so a generation
// tells apart the two objects.
func (s *Store) put(key Key, object Object, changed bool) (Object, error) {
	kind := s.kinds[[2]string{key.Group, key.Plural}]
	meta := unstructured.Unstructured{Object: object}
	if schema, ok := kind.schemas[versionOf(meta.GetAPIVersion())]; ok {
		applyDefaults(schema, object)
	}
	if changed {
		s.generations[key]++
		meta.SetGeneration(s.generations[key])
	}
	s.version++
	meta.SetResourceVersion(strconv.FormatInt(s.version, 10))
	before := s.objects[key]
	s.objects[key] = object
	if changed || !reflect.DeepEqual(manifest(before), manifest(object)) {
		if err := s.directory.write(kind, key, object); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		if kind.Manifest {
			s.written++
		}
	}
	s.signal()
	return runtime.DeepCopyJSON(object), nil
}

func (s *Store) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// sameSpec: equal in everything but metadata and status, which is what a generation counts.
func sameSpec(a, b Object) bool {
	strip := func(object Object) Object {
		copied := make(Object, len(object))
		for name, value := range object {
			if name != "metadata" && name != "status" && name != "apiVersion" {
				copied[name] = value
			}
		}
		return copied
	}
	return reflect.DeepEqual(strip(a), strip(b))
}

func setOrDelete(object Object, field string, value any) {
	if value == nil {
		delete(object, field)
	} else {
		object[field] = value
	}
}

func notFound(key Key) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: key.Group, Resource: key.Plural}, key.Name)
}
