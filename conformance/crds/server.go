package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	genericvalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// server judges objects as an API server does on create, with the CRDs of one channel: the same library calls in the same order as
// k8s.io/apiextensions-apiserver's decoder (customresource_handler.go) and its strategy (registry/customresource/strategy.go).
type server struct {
	kinds map[schema.GroupVersionKind]*kind
}

type kind struct {
	gvk        schema.GroupVersionKind
	namespaced bool
	schema     *structuralschema.Structural
	validator  validation.SchemaValidator
	rules      *cel.Validator
	// The schema is that of an earlier version: what was tried there need not be tried again.
	repeats bool
}

// verdict says why an object is refused (nothing: it is accepted), which of its fields the schema does not have, and what is stored.
type verdict struct {
	errors  field.ErrorList
	unknown []string
	// Without metadata and status
	stored map[string]any
}

func (v verdict) accepted() bool { return len(v.errors) == 0 }

// load reads every CustomResourceDefinition of a directory; of each the versions that are served.
func load(directory string) (*server, error) {
	files, err := filepath.Glob(filepath.Join(directory, "gateway.networking.k8s.io_*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no CRDs in %s", directory)
	}
	server := &server{kinds: map[schema.GroupVersionKind]*kind{}}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(text, &crd); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if crd.Kind != "CustomResourceDefinition" {
			continue // the policy that guards upgrades
		}
		for _, version := range crd.Spec.Versions {
			if !version.Served {
				continue
			}
			kind, err := newKind(&crd, version)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			for _, other := range server.kinds {
				kind.repeats = kind.repeats || other.gvk.GroupKind() == kind.gvk.GroupKind() && reflect.DeepEqual(other.schema.Properties["spec"], kind.schema.Properties["spec"])
			}
			server.kinds[kind.gvk] = kind
		}
	}
	return server, nil
}

func newKind(crd *apiextensionsv1.CustomResourceDefinition, version apiextensionsv1.CustomResourceDefinitionVersion) (*kind, error) {
	var internal apiextensions.JSONSchemaProps
	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, &internal, nil)
	if err != nil {
		return nil, err
	}
	structural, err := structuralschema.NewStructural(&internal)
	if err != nil {
		return nil, err
	}
	if err := defaulting.PruneDefaults(structural); err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		return nil, err
	}
	return &kind{
		gvk:        schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind},
		namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		schema:     structural,
		validator:  validator,
		rules:      cel.NewValidator(structural, true, celconfig.PerCallLimit),
	}, nil
}

// judgeAll judges on every processor.
func (s *server) judgeAll(objects []map[string]any) []verdict {
	verdicts := make([]verdict, len(objects))
	var group sync.WaitGroup
	for worker := range runtime.NumCPU() {
		group.Go(func() {
			for index := worker; index < len(objects); index += runtime.NumCPU() {
				verdicts[index] = s.judge(objects[index])
			}
		})
	}
	group.Wait()
	return verdicts
}

// judge does not change the object.
func (s *server) judge(original map[string]any) verdict {
	object := &unstructured.Unstructured{Object: kruntime.DeepCopyJSON(original)}
	kind := s.kinds[object.GroupVersionKind()]
	if kind == nil {
		return verdict{errors: field.ErrorList{field.NotSupported(field.NewPath("apiVersion"), object.GetAPIVersion(), []string{})}}
	}
	return kind.judge(object)
}

func (k *kind) judge(object *unstructured.Unstructured) verdict {
	var result verdict
	metadata := object.Object["metadata"]
	delete(object.Object, "metadata")
	result.unknown = pruning.PruneWithOptions(object.Object, k.schema, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	defaulting.PruneNonNullableNullsWithoutDefaults(object.Object, k.schema)
	defaulting.Default(object.Object, k.schema)
	delete(object.Object, "status") // the status subresource
	result.stored = kruntime.DeepCopyJSON(object.Object)
	result.errors = append(result.errors, k.judgeMetadata(metadata)...)
	// The schema requires nothing of the metadata.
	object.Object["metadata"] = map[string]any{}
	errors := validation.ValidateCustomResource(nil, object.Object, k.validator)
	errors = append(errors, listtype.ValidateListSetsAndMaps(nil, k.schema, object.Object)...)
	if !blocks(errors) {
		found, _ := k.rules.Validate(context.Background(), nil, k.schema, object.Object, nil, celconfig.RuntimeCELCostBudget)
		errors = append(errors, found...)
	}
	result.errors = append(result.errors, errors...)
	return result
}

// judgeMetadata judges name and namespace. An absent namespace is what kubectl fills in.
func (k *kind) judgeMetadata(value any) field.ErrorList {
	path := field.NewPath("metadata")
	fields, ok := value.(map[string]any)
	if !ok {
		return field.ErrorList{field.Required(path, "must be an object")}
	}
	var metadata metav1.ObjectMeta
	if err := kruntime.DefaultUnstructuredConverter.FromUnstructured(fields, &metadata); err != nil {
		return field.ErrorList{field.Invalid(path, fields, err.Error())}
	}
	if metadata.Namespace == "" && k.namespaced {
		metadata.Namespace = "default"
	}
	return genericvalidation.ValidateObjectMetaAccessor(&metadata, k.namespaced, genericvalidation.NameIsDNSSubdomain, path)
}

// blocks says whether the rules are not evaluated because of these errors (hasBlockingErr in strategy.go).
func blocks(errors field.ErrorList) bool {
	for _, err := range errors {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return true
		}
	}
	return false
}

// rule is one x-kubernetes-validations entry, at the place in the schema where it stands.
type rule struct {
	kind    string
	path    string
	message string
}

// neverBroken are rules that say what an enum says, too: objects are refused before the rules are evaluated.
var neverBroken = map[string]bool{"type must be one of ['Exact', 'PathPrefix', 'RegularExpression']": true}

// walkRules visits every rule of a schema that can be broken. Rules that compare with the object's former state never run on create.
func (k *kind) walkRules(visit func(rule)) {
	var walk func(path string, schema *structuralschema.Structural)
	walk = func(path string, schema *structuralschema.Structural) {
		for _, entry := range schema.XValidations {
			if !strings.Contains(entry.Rule, "oldSelf") && !neverBroken[entry.Message] {
				visit(rule{kind: k.gvk.Kind + "/" + k.gvk.Version, path: path, message: entry.Message})
			}
		}
		for name, property := range schema.Properties {
			walk(join(path, name), &property)
		}
		if schema.Items != nil {
			walk(path+"[]", schema.Items)
		}
		if schema.AdditionalProperties != nil && schema.AdditionalProperties.Structural != nil {
			walk(path+"[]", schema.AdditionalProperties.Structural)
		}
	}
	for _, field := range []string{"spec"} {
		property := k.schema.Properties[field]
		walk(field, &property)
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
