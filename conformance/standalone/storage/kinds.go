package storage

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// Kind is one kind of object that the storage serves.
type Kind struct {
	Group      string
	Versions   []string
	Kind       string
	Plural     string
	Namespaced bool
	// HasStatus: status is a subresource, so a write of the object leaves it alone.
	HasStatus bool
	// Manifest: Portolan reads this kind, so each object becomes a file of its directory.
	Manifest bool
	// Schemas by version: their defaults are applied to what is written.
	schemas map[string]map[string]any
}

// BuiltIn are the kinds of Kubernetes itself that the suite uses.
func BuiltIn() []*Kind {
	v1 := []string{"v1"}
	return []*Kind{
		{Versions: v1, Kind: "Namespace", Plural: "namespaces", Manifest: true},
		{Versions: v1, Kind: "Service", Plural: "services", Namespaced: true, Manifest: true},
		{Versions: v1, Kind: "Secret", Plural: "secrets", Namespaced: true, Manifest: true},
		{Versions: v1, Kind: "ConfigMap", Plural: "configmaps", Namespaced: true, Manifest: true},
		{Versions: v1, Kind: "Pod", Plural: "pods", Namespaced: true},
		{Versions: v1, Kind: "ServiceAccount", Plural: "serviceaccounts", Namespaced: true},
		{Group: "apps", Versions: v1, Kind: "Deployment", Plural: "deployments", Namespaced: true},
		{Group: "discovery.k8s.io", Versions: v1, Kind: "EndpointSlice", Plural: "endpointslices", Namespaced: true, Manifest: true},
		{Group: "apiextensions.k8s.io", Versions: v1, Kind: "CustomResourceDefinition", Plural: "customresourcedefinitions"},
	}
}

// CustomResources reads the CustomResourceDefinitions of a directory: the kinds that they define, and the definitions
// themselves (the suite asks for their annotations).
func CustomResources(dir string) ([]*Kind, []Object, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, nil, err
	}
	sort.Strings(files)
	var kinds []*Kind
	var definitions []Object
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, nil, err
		}
		definition := Object{}
		document, err := yaml.YAMLToJSON(text)
		// A file with several documents (the admission policy) fails here or is of another kind; neither defines a kind.
		if err != nil || kjson.Unmarshal(document, &definition) != nil || definition["kind"] != "CustomResourceDefinition" {
			continue
		}
		kinds = append(kinds, kindOf(definition))
		definitions = append(definitions, definition)
	}
	if len(kinds) == 0 {
		return nil, nil, fmt.Errorf("no CustomResourceDefinition in %s", dir)
	}
	return kinds, definitions, nil
}

func kindOf(definition Object) *Kind {
	at := func(fields ...string) string {
		text, _, _ := unstructured.NestedString(definition, fields...)
		return text
	}
	kind := &Kind{
		Group:      at("spec", "group"),
		Kind:       at("spec", "names", "kind"),
		Plural:     at("spec", "names", "plural"),
		Namespaced: at("spec", "scope") == "Namespaced",
		Manifest:   true,
		schemas:    map[string]map[string]any{},
	}
	versions, _, _ := unstructured.NestedSlice(definition, "spec", "versions")
	for _, version := range versions {
		version, _ := version.(map[string]any)
		if served, _, _ := unstructured.NestedBool(version, "served"); !served {
			continue
		}
		name, _, _ := unstructured.NestedString(version, "name")
		kind.Versions = append(kind.Versions, name)
		kind.schemas[name], _, _ = unstructured.NestedMap(version, "schema", "openAPIV3Schema")
		_, kind.HasStatus, _ = unstructured.NestedMap(version, "subresources", "status")
	}
	return kind
}

// groupVersion as it stands in apiVersion.
func groupVersion(group, version string) string {
	if group == "" {
		return version
	}
	return group + "/" + version
}

// versionOf an apiVersion: what follows the group.
func versionOf(apiVersion string) string {
	return apiVersion[strings.LastIndexByte(apiVersion, '/')+1:]
}
