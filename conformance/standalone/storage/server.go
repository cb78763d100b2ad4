package storage

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"
)

// Server speaks the Kubernetes API's paths and JSON, so that the suite's own clients work unchanged.
type Server struct {
	Store *Store
	// Logs of a pod since a moment, for the tests that look for mirrored requests in them.
	Logs func(namespace, pod string, since time.Time) ([]byte, error)
}

// target of a request: a kind, a collection or an object of it.
type target struct {
	kind        *Kind
	version     string
	key         Key // Name is empty for a collection
	subresource string
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	segments := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.URL.Path == "/api":
		respond(w, http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
	case r.URL.Path == "/apis":
		respond(w, http.StatusOK, s.Store.groups())
	case segments[0] == "api" && len(segments) == 2:
		respond(w, http.StatusOK, s.Store.resources("", segments[1]))
	case segments[0] == "apis" && len(segments) == 3:
		respond(w, http.StatusOK, s.Store.resources(segments[1], segments[2]))
	default:
		target, ok := s.target(segments)
		if !ok {
			respond(w, http.StatusNotFound, apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, target.resource(), "", "no such path", 0, true).Status())
			return
		}
		result, err := s.serve(w, r, target)
		var status apierrors.APIStatus
		switch {
		case errors.As(err, &status):
			respond(w, int(status.Status().Code), status.Status())
		case err != nil:
			respond(w, http.StatusInternalServerError, apierrors.NewInternalError(err).Status())
		case result != nil:
			respond(w, http.StatusOK, result)
		}
	}
}

// target of /api/v1/[namespaces/NS/]PLURAL[/NAME[/SUBRESOURCE]] and the same under /apis/GROUP/VERSION.
func (s *Server) target(segments []string) (target, bool) {
	var t target
	switch {
	case segments[0] == "api" && len(segments) > 2:
		t.version, segments = segments[1], segments[2:]
	case segments[0] == "apis" && len(segments) > 3:
		t.key.Group, t.version, segments = segments[1], segments[2], segments[3:]
	default:
		return t, false
	}
	if segments[0] == "namespaces" && len(segments) > 2 {
		t.key.Namespace, segments = segments[1], segments[2:]
	}
	t.key.Plural = segments[0]
	if len(segments) > 1 {
		t.key.Name = segments[1]
	}
	if len(segments) > 2 {
		t.subresource = segments[2]
	}
	var ok bool
	t.kind, ok = s.Store.Kind(t.key.Group, t.key.Plural)
	return t, ok && contains(t.kind.Versions, t.version) && len(segments) <= 3
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, t target) (any, error) {
	switch {
	case r.Method == http.MethodGet && t.subresource == "log":
		return nil, s.logs(w, r, t)
	case r.Method == http.MethodGet && t.key.Name == "":
		return s.list(r, t)
	case r.Method == http.MethodGet:
		object, err := s.Store.Get(t.key)
		return t.in(object), err
	case r.Method == http.MethodPost && t.key.Name == "":
		object, err := body(r)
		if err != nil {
			return nil, err
		}
		t.key.Name = (&unstructured.Unstructured{Object: object}).GetName()
		object, err = s.Store.Create(t.key, t.in(object))
		return t.in(object), err
	case r.Method == http.MethodPut:
		object, err := body(r)
		if err != nil {
			return nil, err
		}
		object, err = s.Store.Replace(t.key, t.in(object), t.subresource == "status")
		return t.in(object), err
	case r.Method == http.MethodPatch && r.Header.Get("Content-Type") == "application/merge-patch+json":
		patch, err := body(r)
		if err != nil {
			return nil, err
		}
		object, err := s.Store.Get(t.key)
		if err != nil {
			return nil, err
		}
		object, err = s.Store.Replace(t.key, merge(object, patch), t.subresource == "status")
		return t.in(object), err
	case r.Method == http.MethodDelete && t.key.Name != "":
		return metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess}, s.Store.Delete(t.key)
	}
	return nil, apierrors.NewMethodNotSupported(t.resource(), r.Method+" "+r.Header.Get("Content-Type"))
}

func (s *Server) list(r *http.Request, t target) (any, error) {
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if r.URL.Query().Get("watch") != "" || r.URL.Query().Get("fieldSelector") != "" {
		return nil, apierrors.NewBadRequest("watches and field selectors are not served")
	}
	items := []any{}
	for _, object := range s.Store.List(t.key.Group, t.key.Plural, t.key.Namespace) {
		if selector.Matches(labels.Set((&unstructured.Unstructured{Object: object}).GetLabels())) {
			items = append(items, t.in(object))
		}
	}
	return Object{
		"apiVersion": groupVersion(t.key.Group, t.version),
		"kind":       t.kind.Kind + "List",
		"metadata":   Object{},
		"items":      items,
	}, nil
}

func (s *Server) logs(w http.ResponseWriter, r *http.Request, t target) error {
	since := time.Time{}
	if text := r.URL.Query().Get("sinceTime"); text != "" {
		parsed, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		since = parsed
	}
	text, err := s.Logs(t.key.Namespace, t.key.Name, since)
	if err != nil {
		return apierrors.NewNotFound(t.resource(), t.key.Name)
	}
	w.Header().Set("Content-Type", "text/plain")
	_, err = w.Write(text)
	return err
}

func (t target) resource() schema.GroupResource {
	return schema.GroupResource{Group: t.key.Group, Resource: t.key.Plural}
}

// in the version that was asked for: the versions of a Gateway API kind have one schema.
func (t target) in(object Object) Object {
	if object != nil {
		object["apiVersion"] = groupVersion(t.key.Group, t.version)
		object["kind"] = t.kind.Kind
	}
	return object
}

// merge by RFC 7386.
func merge(into, patch Object) Object {
	for name, value := range patch {
		switch value := value.(type) {
		case nil:
			delete(into, name)
		case map[string]any:
			inner, _ := into[name].(map[string]any)
			if inner == nil {
				inner = Object{}
			}
			into[name] = merge(inner, value)
		default:
			into[name] = value
		}
	}
	return into
}

func body(r *http.Request) (Object, error) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	object := Object{}
	// This decoder keeps integers apart from floats, as the unstructured objects of Kubernetes do.
	if err := kjson.Unmarshal(text, &object); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return object, nil
}

func respond(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value)
}
