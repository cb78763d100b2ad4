package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// report collects where the two disagree and what was tried at all.
type report struct {
	channels      []*channelReport
	compared      int
	disagreements []string
}

type channelReport struct {
	name              string
	server            *server
	accepted, refused map[string]int // by kind and version
	ruleHits          map[rule]int
	ruleKept          map[rule]int
}

func newReport(standard, experimental *server) *report {
	report := &report{}
	for _, channel := range []struct {
		name   string
		server *server
	}{{"standard", standard}, {"experimental", experimental}} {
		entry := &channelReport{
			name: channel.name, server: channel.server, accepted: map[string]int{}, refused: map[string]int{},
			ruleHits: map[rule]int{}, ruleKept: map[rule]int{},
		}
		for _, kind := range channel.server.kinds {
			if !kind.repeats {
				kind.walkRules(func(rule rule) { entry.ruleHits[rule] += 0 })
			}
		}
		report.channels = append(report.channels, entry)
	}
	return report
}

func (r *report) compare(object map[string]any, standard, experimental verdict, reader readerVerdict) {
	r.compared++
	for index, pair := range []struct {
		server verdict
		reader bool
	}{{standard, reader.Standard}, {experimental, reader.Experimental}} {
		channel := r.channels[index]
		channel.count(object, pair.server)
		if pair.server.accepted() != pair.reader {
			r.disagree(object, fmt.Sprintf("%s: the API server %s, the reader %s", channel.name, word(pair.server.accepted()), word(pair.reader)),
				pair.server.errors.ToAggregate(), reader)
		}
	}
	if !experimental.accepted() {
		return
	}
	if !reader.Read {
		r.disagree(object, "accepted, but not read", nil, reader)
	}
	slices.Sort(experimental.unknown)
	slices.Sort(reader.Unknown)
	if !slices.Equal(experimental.unknown, reader.Unknown) {
		r.disagree(object, fmt.Sprintf("unknown fields: the API server drops %v, the reader reports %v", experimental.unknown, reader.Unknown), nil, reader)
	}
	// The reader shows unknown fields as they were written.
	if len(experimental.unknown) == 0 {
		delete(reader.Written, "metadata")
		stored, _ := json.Marshal(experimental.stored)
		written, _ := json.Marshal(reader.Written)
		if !bytes.Equal(stored, written) {
			r.disagree(object, fmt.Sprintf("defaults: the API server stores %s, the reader shows %s", stored, written), nil, reader)
		}
	}
}

func (r *report) disagree(object map[string]any, what string, errors error, reader readerVerdict) {
	text, _ := json.Marshal(object)
	if len(text) > 3000 {
		text = append(text[:3000], "…"...)
	}
	r.disagreements = append(r.disagreements,
		fmt.Sprintf("%s\n  API server: %v\n  reader: %s\n  %s", what, errors, strings.Join(reader.Violations, "; "), text))
}

func (c *channelReport) count(object map[string]any, verdict verdict) {
	gvk := (&unstructured.Unstructured{Object: object}).GroupVersionKind()
	name := gvk.Kind + "/" + gvk.Version
	if c.server.kinds[gvk] == nil {
		return
	}
	if verdict.accepted() {
		c.accepted[name]++
		places := map[string]bool{}
		collect(object["spec"], "spec", places)
		for rule := range c.ruleHits {
			if rule.kind == name && places[rule.path] {
				c.ruleKept[rule]++
			}
		}
		return
	}
	c.refused[name]++
	for _, err := range verdict.errors {
		message := err.Detail
		if _, after, found := strings.Cut(message, "evaluating rule: "); found {
			message = after // the rule met a field that is not there
		}
		rule := rule{kind: name, path: withoutIndices(err.Field), message: message}
		if _, known := c.ruleHits[rule]; known {
			c.ruleHits[rule]++
		}
	}
}

// collect gathers the places of the schema that a value fills.
func collect(value any, path string, places map[string]bool) {
	places[path] = true
	switch value := value.(type) {
	case map[string]any:
		for name, item := range value {
			collect(item, join(path, name), places)
		}
	case []any:
		for _, item := range value {
			collect(item, path+"[]", places)
		}
	}
}

func word(accepted bool) string {
	if accepted {
		return "accepts"
	}
	return "refuses"
}

// print says whether something failed.
func (r *report) print() bool {
	failed := len(r.disagreements) > 0
	for index, text := range r.disagreements {
		if index == 40 {
			fmt.Printf("… and %d more\n", len(r.disagreements)-index)
			break
		}
		fmt.Println("DISAGREEMENT", text)
	}
	for _, channel := range r.channels {
		fmt.Printf("\n%-14s %-28s %8s %8s\n", channel.name, "kind", "accepted", "refused")
		var kinds []string
		for gvk := range channel.server.kinds {
			kinds = append(kinds, gvk.Kind+"/"+gvk.Version)
		}
		sort.Strings(kinds)
		for _, kind := range kinds {
			fmt.Printf("%-14s %-28s %8d %8d\n", "", kind, channel.accepted[kind], channel.refused[kind])
			if channel.accepted[kind] == 0 || channel.refused[kind] == 0 {
				failed = true
				fmt.Printf("UNTRIED %s: no object of %s was accepted, or none refused\n", channel.name, kind)
			}
		}
		var untried []string
		for rule, hits := range channel.ruleHits {
			if hits == 0 || channel.ruleKept[rule] == 0 {
				untried = append(untried, fmt.Sprintf("UNTRIED %s: %s %s: %s (kept by %d objects, broken by %d)",
					channel.name, rule.kind, rule.path, rule.message, channel.ruleKept[rule], hits))
			}
		}
		sort.Strings(untried)
		for _, text := range untried {
			failed = true
			fmt.Println(text)
		}
		fmt.Printf("%-14s %d of %d rules (CEL) were kept and broken\n", "", len(channel.ruleHits)-len(untried), len(channel.ruleHits))
	}
	fmt.Printf("\n%d objects compared, %d disagreements\n", r.compared, len(r.disagreements))
	return failed
}
