package standalone

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/apis/v1alpha2"
	"sigs.k8s.io/gateway-api/apis/v1alpha3"
	"sigs.k8s.io/gateway-api/apis/v1beta1"
	"sigs.k8s.io/gateway-api/conformance"
	"sigs.k8s.io/gateway-api/conformance/tests"
	"sigs.k8s.io/gateway-api/conformance/utils/config"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
	"sigs.k8s.io/gateway-api/pkg/features"

	"portolan.dev/conformance/outcomes"
)

// TestSuite runs every test of the suite whose features Portolan claims in GatewayClass.status.supportedFeatures.
func TestSuite(t *testing.T) {
	program, _ := binaries(t)
	log.SetLogger(logr.Discard())
	for _, install := range []func() error{
		func() error { return gatewayv1.Install(scheme.Scheme) },
		func() error { return v1beta1.Install(scheme.Scheme) },
		func() error { return v1alpha2.Install(scheme.Scheme) },
		func() error { return v1alpha3.Install(scheme.Scheme) },
		func() error { return apiextensionsv1.AddToScheme(scheme.Scheme) },
	} {
		require.NoError(t, install())
	}
	cluster := startCluster(t, program)
	kube, err := client.New(cluster.config, client.Options{})
	require.NoError(t, err)
	clients, err := clientset.NewForConfig(cluster.config)
	require.NoError(t, err)
	require.NoError(t, kube.Create(context.Background(), &gatewayv1.GatewayClass{
		ObjectMeta: metav1.ObjectMeta{Name: className},
		Spec:       gatewayv1.GatewayClassSpec{ControllerName: controllerName},
	}))
	var class gatewayv1.GatewayClass
	require.Eventually(t, func() bool {
		err := kube.Get(context.Background(), client.ObjectKey{Name: className}, &class)
		return err == nil && len(class.Status.SupportedFeatures) > 0
	}, 10*time.Second, 20*time.Millisecond, "the GatewayClass claims no features")
	known := features.SetsToNamesSet(features.AllFeatures)
	for _, feature := range class.Status.SupportedFeatures {
		assert.True(t, known.Has(features.FeatureName(feature.Name)), "%s is claimed and is no feature of this version of the suite", feature.Name)
	}

	var noted outcomes.Outcomes
	timeouts := config.DefaultTimeoutConfig()
	hurry(&timeouts)
	options := suite.ConformanceOptions{
		Client:     kube,
		Clientset:  clients,
		RestConfig: cluster.config,
		ManifestFS: []fs.FS{&conformance.Manifests},
		Hook:       noted.Record,
		ConfigurableOptions: suite.ConfigurableOptions{
			GatewayClassName:     className,
			CleanupTestResources: true,
			TimeoutConfig:        timeouts,
			DisableParallelTests: true,
			ConformanceProfiles:  []suite.ConformanceProfileName{suite.GatewayHTTPConformanceProfileName, suite.GatewayGRPCConformanceProfileName},
			UsableNetworkAddresses: []gatewayv1.GatewaySpecAddress{
				{Type: new(gatewayv1.IPAddressType), Value: "127.0.200.1"},
			},
			UnusableNetworkAddresses: []gatewayv1.GatewaySpecAddress{
				{Type: new(gatewayv1.IPAddressType), Value: "192.0.2.200"}, // TEST-NET-1: no machine has it
			},
		},
	}
	traffic := noteTraffic(&options, cluster.store)
	conformanceSuite, err := suite.NewConformanceTestSuite(options)
	require.NoError(t, err)

	selected := []suite.ConformanceTest{}
	pattern := regexp.MustCompile(*only)
	for _, test := range tests.ConformanceTests {
		if pattern.MatchString(test.ShortName) {
			selected = append(selected, cluster.withMore(test, traffic))
		}
	}
	passed := t.Run("Setup", func(t *testing.T) { conformanceSuite.Setup(t, selected) })
	require.True(t, passed, "the suite's base objects did not become ready")
	// A group of its own, so that it is over when the results are counted.
	t.Run("Tests", func(t *testing.T) {
		require.NoError(t, conformanceSuite.Run(t, selected))
	})
	report, err := conformanceSuite.Report()
	require.NoError(t, err)
	noted.Print(os.Stdout, report)
	fmt.Printf("portolan explain was asked of %d different requests\n", cluster.explained.Load())
	if *only == "" {
		compare(t, &noted)
	}
}

// hurry shortens what only decides how long a failure takes, and polls faster. What the specification bounds (MaxTimeToConsistency)
// stays at its conformant value or below.
func hurry(timeouts *config.TimeoutConfig) {
	const patience = 10 * time.Second
	for _, timeout := range []*time.Duration{
		&timeouts.GatewayMustHaveAddress, &timeouts.GatewayMustHaveCondition, &timeouts.GatewayStatusMustHaveListeners,
		&timeouts.GatewayListenersMustHaveConditions, &timeouts.ListenerSetMustHaveCondition,
		&timeouts.ListenerSetListenersMustHaveConditions, &timeouts.GWCMustBeAccepted, &timeouts.HTTPRouteMustNotHaveParents,
		&timeouts.HTTPRouteMustHaveCondition, &timeouts.TLSRouteMustHaveCondition, &timeouts.TCPRouteMustHaveCondition,
		&timeouts.UDPRouteMustHaveCondition, &timeouts.RouteMustHaveParents, &timeouts.MaxTimeToConsistency,
		&timeouts.NamespacesMustBeReady, &timeouts.LatestObservedGenerationSet, &timeouts.DefaultTestTimeout,
	} {
		*timeout = min(*timeout, patience)
	}
	timeouts.DefaultPollInterval = 20 * time.Millisecond
}
