package standalone

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/conformance"
	"sigs.k8s.io/gateway-api/conformance/utils/kubernetes"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
	"sigs.k8s.io/yaml"

	"portolan.dev/conformance/standalone/storage"
)

const (
	manifestsFile = "manifests.txt"
	baseManifests = "base/manifests.yaml"
)

// answers: Portolan ends with 1 when it has findings, which is what it is asked for.
var answers = []int{0, 1}

// TestManifests puts every manifest of the suite, of supported kinds and others, together with the base objects through
// `portolan check`, which must be able to read it; `portolan translate`, whose result Envoy must accept; and writes down what is not
// right or not supported about its objects. manifests.txt is the golden of that.
func TestManifests(t *testing.T) {
	portolan, envoy := binaries(t)
	var files []string
	require.NoError(t, fs.WalkDir(conformance.Manifests, ".", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".yaml") {
			files = append(files, path)
		}
		return err
	}))
	sort.Strings(files)
	require.NotEmpty(t, files)

	base := t.TempDir()
	write(t, filepath.Join(base, "class.yaml"), fmt.Sprintf(
		"apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: %s}\nspec: {controllerName: %s}\n", className, controllerName))
	write(t, filepath.Join(base, "base.yaml"), prepared(t, baseManifests))
	write(t, filepath.Join(base, "certificates.yaml"), certificates(t))

	validator := &validator{envoy: envoy, seen: map[[32]byte]bool{}}
	reports := make([]string, len(files))
	slots := make(chan struct{}, runtime.NumCPU())
	var running sync.WaitGroup
	for index, file := range files {
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			reports[index] = judge(t, portolan, validator, base, file)
		})
	}
	running.Wait()
	fmt.Printf("manifests: %d files; Envoy accepted %d different configurations\n", len(files), len(validator.seen))

	actual := strings.Join(reports, "")
	if *update {
		write(t, manifestsFile, actual)
		return
	}
	expected, err := os.ReadFile(manifestsFile)
	require.NoError(t, err, "run.sh -update writes it")
	assert.Equal(t, string(expected), actual, "what is unsupported differs from %s (run.sh -update)", manifestsFile)
}

// judge one file: the base objects and it are one directory.
func judge(t *testing.T, portolan string, validator *validator, base, file string) string {
	directory := t.TempDir()
	for _, name := range []string{"class.yaml", "base.yaml", "certificates.yaml"} {
		text, err := os.ReadFile(filepath.Join(base, name))
		if !assert.NoError(t, err) {
			return ""
		}
		write(t, filepath.Join(directory, name), string(text))
	}
	name := "base.yaml"
	if file != baseManifests {
		name = "test.yaml"
		write(t, filepath.Join(directory, name), prepared(t, file))
	}

	output, err := run(answers, portolan, "check", directory, "-o", "json")
	if !assert.NoError(t, err, "%s: portolan check", file) {
		return ""
	}
	report := fmt.Sprintf("%s\n%s", file, shortcomings(t, file, name, output))

	configurations := t.TempDir()
	if _, err := run(answers, portolan, "translate", directory, "-o", "envoy", "-d", configurations, "--show-secrets"); !assert.NoError(t, err, "%s: portolan translate", file) {
		return report
	}
	written, err := filepath.Glob(filepath.Join(configurations, "*"))
	assert.NoError(t, err)
	assert.NotEmpty(t, written, "%s: portolan translate wrote nothing", file)
	for _, configuration := range written {
		assert.NoError(t, validator.validate(configuration), "%s: %s", file, filepath.Base(configuration))
	}
	return report
}

// checked is the output of `portolan check -o json`.
type checked struct {
	Findings []struct {
		Error   bool   `json:"error"`
		File    string `json:"file"`
		Object  string `json:"object"`
		Field   string `json:"field"`
		Message string `json:"message"`
	} `json:"findings"`
	Objects []storage.Object `json:"objects"`
}

// shortcomings of a file's own objects: what Portolan finds, and conditions that are good but name something that is not supported.
// Every object of Portolan's kinds must be in the answer: nothing is passed over in silence.
func shortcomings(t *testing.T, file, name string, output []byte) string {
	var answer checked
	if !assert.NoError(t, json.Unmarshal(output, &answer), "%s: %s", file, output) {
		return ""
	}
	statuses := map[string]any{}
	for _, object := range answer.Objects {
		statuses[identity(unstructured.Unstructured{Object: object})] = object["status"]
	}
	var text strings.Builder
	for _, finding := range answer.Findings {
		if filepath.Base(finding.File) != name {
			continue
		}
		severity := "warning"
		if finding.Error {
			severity = "error"
		}
		fmt.Fprintf(&text, "    %s: %s: %s: %s\n", severity, finding.Object, finding.Field, finding.Message)
	}
	for _, object := range readManifests(t, []string{file}) {
		if !strings.HasPrefix(object.GetAPIVersion(), gatewayv1.GroupName+"/") {
			continue
		}
		status, known := statuses[identity(object)]
		assert.True(t, known, "%s: %s is not in the answer of check", file, identity(object))
		// A route whose parents are Services (a mesh) is none of Portolan's.
		if status == nil && object.GetKind() != "ReferenceGrant" && !strings.Contains(file, "mesh/") {
			fmt.Fprintf(&text, "    no status: %s\n", identity(object))
		}
		for _, message := range unsupported(status) {
			fmt.Fprintf(&text, "    %s: %s\n", identity(object), message)
		}
	}
	return text.String()
}

// unsupported: messages of good conditions, anywhere in a status, that name what is not supported.
func unsupported(value any) []string {
	var messages []string
	switch value := value.(type) {
	case map[string]any:
		if message, ok := value["message"].(string); ok && value["status"] == "True" && strings.Contains(message, "not supported") {
			messages = append(messages, message)
		}
		for _, field := range []string{"conditions", "listeners", "parents", "ancestors"} {
			messages = append(messages, unsupported(value[field])...)
		}
	case []any:
		for _, element := range value {
			messages = append(messages, unsupported(element)...)
		}
	}
	return messages
}

// validator asks Envoy about a configuration, once for each content: most files leave most of the base Gateways as they are.
type validator struct {
	envoy string
	mutex sync.Mutex
	seen  map[[32]byte]bool
}

func (v *validator) validate(configuration string) error {
	text, err := os.ReadFile(configuration)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	v.mutex.Lock()
	seen := v.seen[sum]
	v.seen[sum] = true
	v.mutex.Unlock()
	if seen {
		return nil
	}
	_, err = run([]int{0}, v.envoy, "--mode", "validate", "--concurrency", "1", "--log-level", "error", "-c", configuration)
	return err
}

// run a program that may end with the given exit codes.
func run(codes []int, program string, arguments ...string) ([]byte, error) {
	command := exec.Command(program, arguments...)
	var output, problem bytes.Buffer
	command.Stdout, command.Stderr = &output, &problem
	err := command.Run()
	if command.ProcessState != nil && slices.Contains(codes, command.ProcessState.ExitCode()) {
		return output.Bytes(), nil
	}
	return nil, fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(program), strings.Join(arguments, " "), err, output.String(), problem.String())
}

// prepared as the suite's Applier does: its placeholders replaced.
func prepared(t *testing.T, file string) string {
	text, err := fs.ReadFile(conformance.Manifests, file)
	assert.NoError(t, err)
	return strings.NewReplacer(
		"{GATEWAY_CLASS_NAME}", className,
		"{GATEWAY_CONTROLLER_NAME}", controllerName,
		"PLACEHOLDER_USABLE_ADDRS", "127.0.200.1",
		"PLACEHOLDER_UNUSABLE_ADDRS", "192.0.2.200",
	).Replace(string(text))
}

// certificates that the suite's Setup makes, with the suite's own functions.
func certificates(t *testing.T) string {
	const infra, app, web = suite.InfrastructureNamespace, suite.AppBackendNamespace, suite.WebBackendNamespace
	caMap, ca, key := kubernetes.MustCreateCACertConfigMap(t, infra, "tls-checks-ca-certificate")
	objects := []client.Object{
		caMap,
		kubernetes.MustCreateSelfSignedCertSecret(t, web, "certificate", []string{"*"}),
		kubernetes.MustCreateSelfSignedCertSecret(t, infra, "tls-validity-checks-certificate", []string{"*", "*.org", "*.wildcard.org"}),
		kubernetes.MustCreateCASignedCertSecret(t, infra, "tls-checks-certificate", []string{"abc.example.com", "spiffe://abc.example.com/test-identity", "other.example.com"}, ca, key),
		kubernetes.MustCreateCASignedClientCertSecret(t, infra, "tls-checks-client-certificate", ca, key),
		kubernetes.MustCreateCASignedCertSecret(t, infra, "tls-passthrough-checks-certificate", []string{"abc.example.com"}, ca, key),
		kubernetes.MustCreateCASignedCertSecret(t, app, "tls-passthrough-checks-certificate", []string{"abc.example.com"}, ca, key),
		kubernetes.MustCreateCASignedCertSecret(t, infra, "tls-terminate-checks-certificate", []string{"tls.example.com"}, ca, key),
		kubernetes.MustCreateCASignedClientCertSecret(t, infra, "tls-validity-checks-client-certificate", ca, key),
	}
	for _, name := range []string{"tls-validity-checks-ca-certificate", "tls-validity-checks-per-port-ca-certificate", "mismatch-ca-certificate"} {
		other, _, _ := kubernetes.MustCreateCACertConfigMap(t, infra, name)
		objects = append(objects, other)
	}
	webMap, _, _ := kubernetes.MustCreateCACertConfigMap(t, web, "web-backend-cm")
	objects = append(objects, webMap)

	var text strings.Builder
	for _, object := range objects {
		kind := "Secret"
		if _, ok := object.(*corev1.ConfigMap); ok {
			kind = "ConfigMap"
		}
		document, err := yaml.Marshal(object)
		require.NoError(t, err)
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: %s\n%s", kind, document)
	}
	return text.String()
}

func identity(object unstructured.Unstructured) string {
	if object.GetNamespace() == "" {
		return object.GetKind() + " " + object.GetName()
	}
	return object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
}

func decodeAll(text []byte) []unstructured.Unstructured {
	var objects []unstructured.Unstructured
	decoder := kyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var object unstructured.Unstructured
		if decoder.Decode(&object) != nil {
			return objects
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	assert.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}
