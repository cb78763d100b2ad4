package main

import (
	"fmt"
	"math/rand"
	"sort"
	"strings"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime"
)

// mutator makes objects from objects: one change at one place, or one more field. The schema says what is worth trying where. The same change
// is made once at the same place of the schema.
type mutator struct {
	random *rand.Rand
	made   map[string]bool
	emit   func(object map[string]any)
	// Every item of a list is a place of its own; only what the rules between fields look at is changed.
	everywhere bool
}

// mutate emits the changes to one object.
func (m *mutator) mutate(kind *kind, object map[string]any) {
	m.mutateShell(kind, object)
	spec := kind.schema.Properties["spec"]
	m.walk(&spec, "spec", []any{"spec"}, object["spec"], m.changer(kind, object))
}

// mutateShell emits the changes to what is around the specification.
func (m *mutator) mutateShell(kind *kind, object map[string]any) {
	change := m.changer(kind, object)
	for _, field := range []string{"name", "namespace"} {
		if !kind.namespaced && field == "namespace" {
			continue
		}
		for _, value := range []any{"", "UPPER", "a_b", "a.b", strings.Repeat("a", 254), int64(5), nil} {
			change("metadata."+field, fmt.Sprintf("%v", value), func(root map[string]any) {
				root["metadata"].(map[string]any)[field] = value
			})
		}
	}
	change("spec", "delete", func(root map[string]any) { delete(root, "spec") })
	change("foo", "unknown", func(root map[string]any) { root["foo"] = "bar" })
	change("status", "wrong", func(root map[string]any) { root["status"] = "bar" })
	change("apiVersion", "old", func(root map[string]any) { root["apiVersion"] = kind.gvk.Group + "/v1alpha1" })
}

// changer gives what makes a change to a copy of the object and emits it, unless it was made often enough.
func (m *mutator) changer(kind *kind, object map[string]any) changer {
	name := kind.gvk.Kind + "/" + kind.gvk.Version
	return func(place, what string, edit func(root map[string]any)) {
		key := name + " " + place + " " + what
		if m.made[key] {
			return
		}
		m.made[key] = true
		changed := runtime.DeepCopyJSON(object)
		edit(changed)
		m.emit(changed)
	}
}

type changer func(place, what string, edit func(root map[string]any))

// walk visits a value together with its schema. place is the path without indices, path the way from the root.
func (m *mutator) walk(schema *structuralschema.Structural, place string, path []any, value any, change changer) {
	set := func(what string, replacement any) {
		change(place, what, func(root map[string]any) { put(root, path, runtime.DeepCopyJSONValue(replacement)) })
	}
	wrong := []any{"x", int64(7), true, []any{}, map[string]any{}, nil}
	if m.everywhere {
		wrong = nil
	}
	for _, value := range wrong {
		set(fmt.Sprintf("type %T", value), value)
	}
	switch value := value.(type) {
	case string:
		m.strings(schema, value, set)
	case int64:
		m.numbers(schema, set)
	case []any:
		m.lists(schema, value, set)
		if schema.Items != nil {
			for index, item := range value {
				step := "[]"
				if m.everywhere {
					step = fmt.Sprintf("[%d]", index)
				}
				m.walk(schema.Items, place+step, extend(path, index), item, change)
			}
		}
	case map[string]any:
		if schema.AdditionalProperties != nil && schema.AdditionalProperties.Structural != nil {
			m.maps(schema, value, set)
			for _, key := range sortedKeys(value) {
				m.walk(schema.AdditionalProperties.Structural, place+"[]", extend(path, key), value[key], change)
			}
			return
		}
		if !m.everywhere {
			change(place+".foo", "unknown", func(root map[string]any) { put(root, extend(path, "foo"), "bar") })
		}
		for _, name := range sortedKeys(schema.Properties) {
			property := schema.Properties[name]
			field := extend(path, name)
			if given, ok := value[name]; ok {
				change(place+"."+name, "delete", func(root map[string]any) { remove(root, field) })
				if !m.everywhere {
					change(place+"."+name, "misspell", func(root map[string]any) {
						put(root, extend(path, name[:len(name)-1]), given)
						remove(root, field)
					})
				}
				m.walk(&property, place+"."+name, field, given, change)
				continue
			}
			for _, rich := range []bool{false, true} {
				sample := m.sample(&property, name, rich)
				change(place+"."+name, fmt.Sprintf("add %v", rich), func(root map[string]any) { put(root, field, sample) })
			}
		}
	}
}

func (m *mutator) strings(schema *structuralschema.Structural, value string, set func(string, any)) {
	texts := []string{
		"", "UPPER", "a/b", "*", " ", "-a", "a-", "a..b", "*.a.b", "a.*", "a b", "a\tb", "é", "1.2.3.4", "::1", "a_b", "/", "//", "/a/./b", "/a/../b", "/a/..", "/a/.",
		"/%2f", "/%2F", "/a#b", "/%zz", "10s", "1h1m1s1ms", "1.5s", "-1s", "999999s", "0s", "http://a:80", "https://*", "spiffe://a/b", "System", "example.net/x", "Foo",
		"None", "All", strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 253), strings.Repeat("é", 253),
	}
	if m.everywhere {
		texts = texts[:2]
	}
	for _, text := range texts {
		set("text "+text, text)
	}
	if validation := schema.ValueValidation; validation != nil {
		if validation.MaxLength != nil && !m.everywhere {
			set("longest", strings.Repeat("a", int(*validation.MaxLength)))
			set("too long", strings.Repeat("a", int(*validation.MaxLength)+1))
			set("too long but valid", value+strings.Repeat("a", int(*validation.MaxLength)))
		}
		for _, choice := range validation.Enum {
			set(fmt.Sprintf("choice %v", choice.Object), choice.Object)
		}
	}
	if m.everywhere {
		return
	}
	set("upper case", strings.ToUpper(value))
	set("line", value+"\n")
}

func (m *mutator) numbers(schema *structuralschema.Structural, set func(string, any)) {
	numbers := []any{int64(0), int64(-1), int64(1), int64(1 << 31), int64(1<<31 - 1), int64(1 << 40), 1.5, 1e30, "80"}
	// Not 80.0, which some rules refuse as no integer: kubectl writes it as 80.
	if validation := schema.ValueValidation; validation != nil {
		for _, bound := range []*float64{validation.Minimum, validation.Maximum} {
			if bound != nil {
				numbers = append(numbers, int64(*bound)-1, int64(*bound), int64(*bound)+1)
			}
		}
		for _, choice := range validation.Enum {
			numbers = append(numbers, choice.Object)
		}
	}
	if m.everywhere {
		numbers = numbers[:1]
	}
	for _, number := range numbers {
		set(fmt.Sprintf("number %v", number), number)
	}
}

func (m *mutator) lists(schema *structuralschema.Structural, value []any, set func(string, any)) {
	set("empty", []any{})
	if !m.everywhere {
		set("null item", append(append([]any{}, value...), nil))
	}
	if len(value) > 0 {
		for index, item := range value {
			set(fmt.Sprintf("duplicate %d", index), append(append([]any{}, value...), item))
		}
		set("only the first", value[:1])
	}
	if schema.Items == nil {
		return
	}
	set("one more", append(append([]any{}, value...), m.sample(schema.Items, "", true)))
	set("two more", append(append([]any{}, value...), m.sample(schema.Items, "", true), m.sample(schema.Items, "", false)))
	if validation := schema.ValueValidation; validation != nil && validation.MaxItems != nil && !m.everywhere {
		for _, count := range []int{int(*validation.MaxItems), int(*validation.MaxItems) + 1} {
			items := make([]any, count)
			for index := range items {
				items[index] = m.sample(schema.Items, "", false)
				if len(value) > 0 {
					items[index] = runtime.DeepCopyJSONValue(value[0])
				}
				if item, ok := items[index].(map[string]any); ok {
					if _, named := schema.Items.Properties["name"]; named {
						item["name"] = fmt.Sprintf("n%d", index)
					}
					if _, ported := schema.Items.Properties["port"]; ported {
						item["port"] = int64(index + 1)
					}
				} else if text, ok := items[index].(string); ok {
					items[index] = fmt.Sprintf("n%d.%s", index, strings.TrimPrefix(text, "*."))
				}
			}
			set(fmt.Sprintf("%d items", count), items)
		}
	}
}

func (m *mutator) maps(schema *structuralschema.Structural, value map[string]any, set func(string, any)) {
	with := func(what, key string, item any) {
		changed := runtime.DeepCopyJSON(value)
		changed[key] = item
		set(what+" "+key, changed)
	}
	for _, key := range []string{
		"", "a", "a/b", "a.b/c", "/a", "a/", "a/b/c", "A/b", "-a", strings.Repeat("a", 63), strings.Repeat("a", 64), "é",
		strings.Repeat("a", 252) + "/b", strings.Repeat("a", 253) + "/b",
	} {
		with("key", key, "x")
	}
	with("number", "a", int64(5))
	with("null", "a", nil)
	with("space", "a", "a b")
	with("long", "a", strings.Repeat("a", 64))
	with("very long", "a", strings.Repeat("a", 4097))
	if m.everywhere {
		return
	}
	for _, count := range []int{8, 9, 16, 17} {
		items := map[string]any{}
		for index := range count {
			items[fmt.Sprintf("k%d", index)] = "v"
		}
		set(fmt.Sprintf("%d entries", count), items)
	}
}

// sample makes up a value that mostly fits the schema: what is required, or (rich) most of what there is.
func (m *mutator) sample(schema *structuralschema.Structural, name string, rich bool) any {
	if validation := schema.ValueValidation; validation != nil && len(validation.Enum) > 0 {
		return validation.Enum[m.random.Intn(len(validation.Enum))].Object
	}
	switch schema.Type {
	case "string":
		return m.sampleText(schema, name)
	case "integer":
		if validation := schema.ValueValidation; validation != nil && validation.Minimum != nil {
			return int64(*validation.Minimum) + int64(m.random.Intn(3))
		}
		return int64(80)
	case "boolean":
		return m.random.Intn(2) == 0
	case "array":
		items := []any{m.sample(schema.Items, name, rich)}
		if rich && m.random.Intn(2) == 0 {
			items = append(items, m.sample(schema.Items, name, false))
		}
		return items
	case "object":
		object := map[string]any{}
		if schema.AdditionalProperties != nil {
			object["example.net/key"] = "value"
			return object
		}
		required := map[string]bool{}
		if schema.ValueValidation != nil {
			for _, field := range schema.ValueValidation.Required {
				required[field] = true
			}
		}
		for _, field := range sortedKeys(schema.Properties) {
			property := schema.Properties[field]
			if required[field] || rich && m.random.Intn(3) > 0 {
				object[field] = m.sample(&property, field, rich)
			}
		}
		return object
	}
	return "x"
}

func (m *mutator) sampleText(schema *structuralschema.Structural, name string) string {
	choose := func(texts ...string) string { return texts[m.random.Intn(len(texts))] }
	switch name {
	case "group":
		return choose("", "gateway.networking.k8s.io", "example.net")
	case "kind":
		return choose("Service", "Gateway", "Secret", "ConfigMap")
	case "protocol":
		return choose("HTTP", "HTTPS", "TLS", "TCP", "UDP", "example.net/Other")
	case "hostname", "hostnames":
		return choose("a.example.net", "b.example.net", "*.example.net")
	case "value":
		return choose("/", "/a", "10.0.0.1", "a.example.net", "x")
	case "request", "backendRequest", "backoff", "absoluteTimeout":
		return choose("0s", "10s", "5s", "1m30s", "100ms")
	case "uri":
		return choose("spiffe://example.net/x", "https://example.net")
	case "allowOrigins":
		return choose("*", "https://example.net", "http://*.example.net:8080")
	case "wellKnownCACertificates":
		return "System"
	case "replaceFullPath", "replacePrefixMatch", "path":
		return choose("/", "/new", "")
	case "service":
		return choose("example.Service", "Service", "1service")
	case "method":
		return choose("Method", "get", "1x")
	case "controllerName":
		return "example.net/controller"
	case "from", "namespace":
		return choose("default", "other")
	case "allowHeaders", "exposeHeaders":
		return choose("*", "x-a", "x-b")
	}
	return choose("a", "b", "c", "a.b")
}

// put sets the value at a path, in place.
func put(root map[string]any, path []any, value any) {
	var at any = root
	for _, step := range path[:len(path)-1] {
		at = child(at, step)
	}
	switch container := at.(type) {
	case map[string]any:
		container[path[len(path)-1].(string)] = value
	case []any:
		container[path[len(path)-1].(int)] = value
	}
}

func remove(root map[string]any, path []any) {
	var at any = root
	for _, step := range path[:len(path)-1] {
		at = child(at, step)
	}
	delete(at.(map[string]any), path[len(path)-1].(string))
}

func child(at any, step any) any {
	switch step := step.(type) {
	case string:
		return at.(map[string]any)[step]
	case int:
		return at.([]any)[step]
	}
	return nil
}

func extend(path []any, step any) []any { return append(append([]any{}, path...), step) }

func sortedKeys[V any](values map[string]V) []string {
	keys := make([]string, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
