package main

import (
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

type textCase struct {
	Input  []byte   `json:"input"`
	Value  any      `json:"value"`
	Error  string   `json:"error,omitempty"`
	Strict []string `json:"strict,omitempty"`
}

func textCorpus() []section {
	read, written, parsed := []any{}, []any{}, []any{}
	for _, input := range jsonInputs {
		parsed = append(parsed, readJSON(input))
	}
	for _, input := range yamlInputs() {
		read = append(read, readYAML(input))
	}
	for _, input := range yamlValues {
		text, err := yaml.JSONToYAML([]byte(input))
		must(err)
		written = append(written, textCase{Input: []byte(input), Value: string(text)})
	}
	return []section{{"json", parsed}, {"yaml", read}, {"yaml_written", written}}
}

func readJSON(input string) textCase {
	c := textCase{Input: []byte(input)}
	var again any
	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(input), &c.Value); err != nil {
		c.Error = err.Error()
		return c
	}
	problems, err := kjson.UnmarshalStrict([]byte(input), &again)
	must(err)
	for _, problem := range problems {
		c.Strict = append(c.Strict, problem.Error())
	}
	return c
}

func readYAML(input string) textCase {
	c := textCase{Input: []byte(input)}
	text, err := yaml.YAMLToJSON([]byte(input))
	if err != nil {
		c.Error = err.Error()
		return c
	}
	must(kjson.UnmarshalCaseSensitivePreserveInts(text, &c.Value))
	if _, err := yaml.YAMLToJSONStrict([]byte(input)); err != nil {
		c.Strict = []string{err.Error()}
	}
	return c
}

var jsonInputs = []string{
	``, ` `, `{`, `{"a":`, `{"a"`, `{"a":1`, `[`, `[1`, `[1,`, `"`, `"\`, `"\u12`, `-`, `1.`, `1e`, `1e+`, `t`, `nul`,
	`x`, `{x`, `{"a" x`, `{"a":x`, `{"a":1 x`, `{"a":1,}`, `{,}`, `[x`, `[1 x`, `[1,]`, `[,]`, `1 x`, `{} {}`, `01`, `-x`, `1.x`, `1ex`,
	`1e+x`, `+1`, `.5`, `tru3`, `fa1se`, `nulL`, `"\x"`, `"\u12G4"`, "\"a\nb\"", "\"\x00\"", "\"\x7f\"", `'a'`, "\ufeff{}", `NaN`,
	`Infinity`, `-Infinity`, `[1}`, `{"a":1]`, `{"a":"b" "c"}`, `"é`, `é`, "\x0b1", `{"a":tru}`, `"a"b`, `'`, `\`, `1.5.5`, `1e5e5`, `-01`,
	`0`, `-0`, `-0.0`, `1`, `1.0`, `1.5`, `1e3`, `1E3`, `1e-3`, `123456789.0`, `9223372036854775807`, `9223372036854775808`,
	`-9223372036854775808`, `-9223372036854775809`, `18446744073709551616`, `100000000000000000000000000000`, `1e400`, `1e308`,
	`null`, `true`, `false`, `""`, `"\u003c\/\b\f\n\r\t"`, `"\ud83d\ude00"`, `{"a":{"b":[1,2,{"c":null}]}}`, " \t\r\n{ \"a\" : [ ] } \n",
	`{"a":1,"a":2}`, `{"a":{"b":1,"b":2},"a":3}`, `{"l":[{"x":1,"x":2},{"x":1,"x":1,"x":1}]}`, `[{"a":1,"a":2},[{"b":1,"b":2}]]`,
	`{"metadata":{"labels":{"a.b/c":"1","a.b/c":"2"}}}`, `{"":1,"":2}`, `{"a:b":":","a:b":1}`, `{"\u0061":1,"a":2}`, `{"c\u003a":1,"c:":2}`,
	`{"c\u003A":1,"d":2}`, `{"A":1,"a":2}`, `{"q\"":1,"q\"":2}`,
}

// yamlScalars are tried as a value, as a key, and in a flow list.
var yamlScalars = strings.Fields(`y Y n N yes Yes YES no No NO on On ON off Off OFF true True TRUE false False FALSE tRUE yEs
~ null Null NULL nULL 0 -0 +0 1 -1 +1 012 -012 +012 0o17 -0o17 0O17 08 09 0x1F 0X1f -0x1F 0xG 0b101 -0b101 0B11 0b12 00 0_1 1_000 _1 1_ 1__0
0x_1 1.5 -1.5 +1.5 .5 -.5 +.5 5. 1e3 1E3 1e+3 1e-3 1.e3 .e3 1e 1e400 -1e400 .5e400 1.0 -0.0 100000.0 1e20 1e21 1e22 1_0.5 ._5 1.5_0 0x1p3
0.1 0.30000000000000004 123456789012 9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809 18446744073709551615
18446744073709551616 100000000000000000000000000000 .inf -.inf +.inf .Inf .INF .nan .NaN .NAN .nAN inf nan NaN 1:30 1:30:45 -1:30 190:20:30.15
2020-01-01 2020-1-1 2020-13-01 2020-02-30 2020-01-01T00:00:00Z 2020-01-01t10:00:00.5+02:00 2020-01-01T00:00 2020 2020-01 20200101 12e03 0e0 -
+ . .. ... - -- --- a a-b 1a a1 << = ! & * 'q' "q" "1" '1' "yes" 0.0.0.0 10.0.0.1 1.2.3 v1 1/2 100m 1Gi 1e2e3 08.5 0x 0b 0o 0o8 -0b 1e0 -1e-7 1e39 -1e39 1e-50 3.4028235e38`)

func yamlInputs() []string {
	inputs := append([]string{}, yamlDocuments...)
	for _, scalar := range yamlScalars {
		inputs = append(inputs, "a: "+scalar+"\n", scalar+": v\n", "["+scalar+", x]\n", "a: !!str "+scalar+"\n")
	}
	return inputs
}

var yamlDocuments = []string{
	"", "\n", "# only a comment\n", "---\n", "--- \na: 1\n", "a: 1\n...\n", "a:\n", "a: \nb: ''\n", "- 1\n- two\n- [3, {four: 4}]\n",
	"a: {b: c, d: [e, f]}\n", "{\"a\": \"b\", \"c\": [1, 2]}", "a: |\n  one\n  two\n", "a: |-\n  one\n  two\n", "a: |+\n  one\n\nb: >\n  x\n  y\n\n  z\n",
	"a: \"x\\ty\\u263a\\x41\\e\"\n", "a: 'it''s'\n", "a: plain\n  folded\n  text\n", "? a\n: b\n", "a: 1\na: 2\n", "a: 1\nb:\n  c: 1\n  c: 2\na: 3\n",
	"a:\n- x: 1\n  x: 2\n", "1: a\n1: b\n", "1: a\n\"1\": b\n", "true: a\nyes: b\n", "1.5: a\n1.5: b\n", "a: &x {b: 1}\nc: *x\n", "a: &x [1, 2]\nb: [*x, *x]\n",
	"a: &x 1\nb: *x\n&k c: *k\n", "a: *nope\n", "a: &x [*x]\n", "base: &b {x: 1, y: 2}\nd:\n  <<: *b\n  y: 3\n", "base: &b {x: 1, y: 2}\nd:\n  y: 3\n  <<: *b\n",
	"a: &a {x: 1}\nb: &b {x: 2, y: 2}\nc:\n  <<: [*a, *b]\n  z: 1\n", "a:\n  <<: {x: 1}\n", "a:\n  <<: 1\n", "a: &s [1]\nb:\n  <<: *s\n", "a:\n  \"<<\": 1\n", "a:\n  <<: [1]\n",
	"a: !!int \"1\"\n", "a: !!int x\n", "a: !!float 1\n", "a: !!float 1.5\n", "a: !!bool yes\n", "a: !!bool 1\n", "a: !!null ''\n", "a: !!null x\n", "a: !!str 1\n", "a: !!map {b: c}\n", "a: !!seq [b]\n",
	"a: ! 12\n", "a: !!str\n", "a: !!float x\n", "a: !!int 1.5\n", "a: !!str [1]\n",
	"~: a\n", "null: a\n", "? [a]\n: b\n", "? {a: b}\n: c\n", "[a, b]: c\n", "a: b: c\n", "a: [1\n", "a: {b\n", "a: \"x\n", "\ta: 1\n", "a:\n\tb: 1\n", "a: @x\n", "a: `x`\n", "%x\n", "a: %x\n",
	"a\nb: c\n", "- a\nb: c\n", "a: 1\n b: 2\n", "a: 'x\n", "key: [a, b}\n", "a: &\n", "a: *\n", "a: !<x\n", "}\n", "]\n", "a: |x\n", "- - - a\n", "-\n", "-\n-\n", "a:\n  - b\n  -\n", "a: \x00\n", "a: \x07\n", "a: \xff\n",
	"a: é☃😀\n", "\ufeffa: 1\n", "a: x # comment\nb: x#y\n", "a: \"\\ud83d\"\n", "a: \"\\q\"\n", "a: \"\\/\"\n", "a : 1\n", "a:1\n", "\"a\":1\n", "{a:1}\n", "{\"a\":1}\n", "{a: }\n", "{a, b: 1}\n", "[a: 1]\n", "- a: 1\n  b: 2\n- c\n",
	"a: 1\r\nb: 2\r\n", "a: >-\n  x\n   y\n", "a: |2\n   x\n", "a: 'x\n\n  y'\n", "a: \"x\n  y\"\n", "x: 2020-01-01 10:00:00\n", "a: - b\n", "? |\n  k\n: v\n", "a: ''\nb: \"\"\nc: !!str\n", "'': 1\n",
	"a: &x\nb: *x\n", "a: &x {k: v}\nb: &x {k: w}\nc: *x\n", "a: -\n", "a: - \n", "a: 1 # x\n", "---\na: 1\n---\n",
}

// yamlValues are written as YAML.
var yamlValues = []string{
	`null`, `true`, `1`, `-5`, `1.5`, `1e-7`, `1234567.5`, `1e21`, `1e+100`, `0.0001`, `0.00001`, `123456789012345680`, `""`, `"a"`, `{}`, `[]`, `{"a":{}}`, `{"a":[]}`,
	`{"a":null}`, `[[],{}]`, `[[1,2],[3]]`, `[{"a":1,"b":2},{"c":[1,{"d":2}]}]`, `{"a":[{"b":[1]}]}`, `{"b":1,"a":2}`, `{"a10":1,"a9":2,"a1":3,"A":4,"b-a":5,"b.a":6,"b_a":7,"ba":8,"1":9,"10":10,"9":11}`,
	`{"y":"y","n":"n","yes":"yes","true":"true","null":"null","~":"~","1":"1","1.5":"1.5","0x1":"0x1","oct":"012","1e3":"1e3","1:30":"1:30","2020-01-01":"2020-01-01"}`,
	`["2020-01-01T00:00:00Z","2020-1-1","2020-13-01","2020-02-30","2020-01-01 10:00:00","2020-01-01T1:2:3.5+02:00","2020-01-01T10:00:00","20200101","2020-01-01x"]`,
	`["","-","--","---","- a","-a","?","? a","?a",":",": a",":a","a:","a: b","a:b","#","# a","a#","a #b","&a","*a","!a","|","|a",">","%a","@a","\u0060a","'","\"","a'b","a\"b","{","}","[","]","{a","a{","a,b",",","=","<<","<","..","...",". ","~a"]`,
	`[" a","a "," ","  ","a  b","\t","a\tb","\ta","a\n","\n","\n\n","a\nb","a\nb\n","a\nb\n\n"," a\nb","a\n b","\na","a\n\nb","a \nb","a\tb\nc","#a\nb","- a\nb"]`,
	`["é","☃","😀","\u0007","\u0000","\u001b","\u007f","\u0085","\u00a0","\u2028","\u2029","\ufeff","a\u0007\nb","\ud7ff","\ue000","\ufffd"]`,
	`["https://example.com/a?b=c#d","10.0.0.1","1.2.3","v1","100m","1Gi","nginx:1.27","a/b:c@sha256:abc","/bin/sh","-c","echo hi","key=value","$(X)","${X}","*.example.com","0.0.0.0/0","::1","[::1]:80","{{.x}}","%s","a@b.c"]`,
	`{"long":"word word word word word word word word word word word word word word word word word word word word word word word word","nospace":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}`,
	`{"quoted":"word: word word word word word word word word word word word word word word word word word word word word word word word"}`,
	`{"a":{"b":{"c":["x",{"d":"one\ntwo\n"}]}},"script":"#!/bin/sh\nset -e\n  echo hi\n"}`, `["yes\nno","1\n2"]`,
	`{"a key":1,"a: b":2,"multi\nline":3,"":4,"- x":5,"é":6}`, `{"x":["a","b"],"y":{"z":["c"]}}`, `"top\nlevel"`, `"yes"`,
	`{"n":18446744073709551615,"m":-9223372036854775808,"f":0.1,"g":100000.5,"h":1e6,"i":3.0,"j":-0.0,"k":1.7976931348623157e308}`,
}
