// The program crds shows that Portolan's reader and an API server with the CRDs of the Gateway API accept and refuse the same
// objects and fill in the same defaults: the manifests of the conformance suite and of the API's examples, and thousands of mutations of them, judged by the code of
// k8s.io/apiextensions-apiserver with the CRDs of both channels.
//
//	go run . READER [ARGUMENT…]
//
// READER takes one JSON object per line and gives one verdict per line (controller/model/examples/read-json.rs).
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const seed = 20_260_613

// readerVerdict is a line of the reader's output.
type readerVerdict struct {
	Standard     bool     `json:"standard"`
	Experimental bool     `json:"experimental"`
	Unknown      []string `json:"unknown"`
	Violations   []string `json:"violations"`
	Read         bool     `json:"read"`
	// The object as the reader shows it, defaults filled in
	Written map[string]any `json:"written"`
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: crds READER [ARGUMENT…]")
		os.Exit(2)
	}
	failed, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "crds:", err)
		os.Exit(2)
	}
	if failed {
		os.Exit(1)
	}
}

func run(reader []string) (failed bool, err error) {
	api, err := download(apiModule)
	if err != nil {
		return false, err
	}
	suite, err := download(suiteModule)
	if err != nil {
		return false, err
	}
	standard, err := load(filepath.Join(api, "config", "crd", "standard"))
	if err != nil {
		return false, err
	}
	experimental, err := load(filepath.Join(api, "config", "crd", "experimental"))
	if err != nil {
		return false, err
	}
	seeds, err := manifests(filepath.Join(suite, "base"), filepath.Join(suite, "tests"), filepath.Join(api, "examples"))
	if err != nil {
		return false, err
	}
	own, err := manifests("manifests")
	if err != nil {
		return false, err
	}
	objects := generate(experimental, seeds, own)
	verdicts, err := read(reader, objects)
	if err != nil {
		return false, err
	}
	report := newReport(standard, experimental)
	inStandard, inExperimental := standard.judgeAll(objects), experimental.judgeAll(objects)
	for index, object := range objects {
		report.compare(object, inStandard[index], inExperimental[index], verdicts[index])
	}
	return report.print(), nil
}

// generate gives the objects of Gateway API kinds, each in every version that is served, and mutations of each. Of the suite's many manifests the
// same place is changed in one only; the own ones, which have everything in them, are changed at every place.
func generate(server *server, suite, own []map[string]any) []map[string]any {
	var objects []map[string]any
	seen := map[string]bool{}
	add := func(object map[string]any) {
		text, err := json.Marshal(object)
		if err == nil && !seen[string(text)] {
			seen[string(text)] = true
			objects = append(objects, object)
		}
	}
	random := rand.New(rand.NewSource(seed))
	mutate := func(mutator *mutator, seed map[string]any) {
		for _, kind := range server.versions(seed) {
			object := (&unstructured.Unstructured{Object: seed}).DeepCopy()
			object.SetAPIVersion(kind.gvk.GroupVersion().String())
			add(object.Object)
			if kind.repeats {
				mutator.mutateShell(kind, object.Object)
			} else {
				mutator.mutate(kind, object.Object)
			}
		}
	}
	shared := &mutator{random: random, made: map[string]bool{}, emit: add}
	for _, seed := range suite {
		mutate(shared, seed)
	}
	for _, seed := range own {
		mutate(&mutator{random: random, made: map[string]bool{}, emit: add, everywhere: true}, seed)
	}
	for _, object := range manyMatches() {
		add(object)
	}
	return objects
}

// versions gives the kinds of the object's group and kind, sorted by version.
func (s *server) versions(object map[string]any) []*kind {
	gvk := (&unstructured.Unstructured{Object: object}).GroupVersionKind()
	var kinds []*kind
	for candidate, kind := range s.kinds {
		if candidate.GroupKind() == gvk.GroupKind() {
			kinds = append(kinds, kind)
		}
	}
	sort.Slice(kinds, func(i, j int) bool { return kinds[i].gvk.Version < kinds[j].gvk.Version })
	return kinds
}

func read(reader []string, objects []map[string]any) ([]readerVerdict, error) {
	var input bytes.Buffer
	encoder := json.NewEncoder(&input)
	for _, object := range objects {
		if err := encoder.Encode(object); err != nil {
			return nil, err
		}
	}
	command := exec.Command(reader[0], reader[1:]...)
	command.Stdin = &input
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(reader, " "), err)
	}
	var verdicts []readerVerdict
	decoder := json.NewDecoder(bytes.NewReader(output))
	for decoder.More() {
		var verdict readerVerdict
		if err := decoder.Decode(&verdict); err != nil {
			return nil, err
		}
		verdicts = append(verdicts, verdict)
	}
	if len(verdicts) != len(objects) {
		return nil, fmt.Errorf("%d verdicts for %d objects", len(verdicts), len(objects))
	}
	return verdicts, nil
}

var indices = regexp.MustCompile(`\[[^\]]*\]`)

// withoutIndices turns spec.rules[3].matches into spec.rules[].matches.
func withoutIndices(path string) string { return indices.ReplaceAllString(path, "[]") }
