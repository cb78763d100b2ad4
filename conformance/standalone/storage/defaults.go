package storage

import "k8s.io/apimachinery/pkg/runtime"

// applyDefaults fills in the defaults of a CRD's schema as an API server does: only fields that are absent, and only inside objects
// that are present.
func applyDefaults(schema map[string]any, value any) {
	switch value := value.(type) {
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		for name, property := range properties {
			property, ok := property.(map[string]any)
			if !ok {
				continue
			}
			if _, present := value[name]; !present {
				if fallback, ok := property["default"]; ok {
					value[name] = runtime.DeepCopyJSONValue(fallback)
				}
			}
			if inner, present := value[name]; present {
				applyDefaults(property, inner)
			}
		}
		if additional, ok := schema["additionalProperties"].(map[string]any); ok {
			for name, inner := range value {
				if _, named := properties[name]; !named {
					applyDefaults(additional, inner)
				}
			}
		}
	case []any:
		if items, ok := schema["items"].(map[string]any); ok {
			for _, item := range value {
				applyDefaults(items, item)
			}
		}
	}
}
