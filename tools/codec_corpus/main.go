// Makes the corpora the codec tests compare against: what the Go libraries of Kubernetes read and write.
//
//	go run . protobuf > ../../tests/unit/codec/protobuf_corpus.json
//	go run . text     > ../../tests/unit/codec/text_corpus.json
//	go run . everything   (every registered kind, every field filled; for a thorough local check)
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	makers := map[string]func() []section{
		"protobuf":   func() []section { return protobufCorpus(false) },
		"everything": func() []section { return protobufCorpus(true) },
		"text":       textCorpus,
	}
	if len(os.Args) != 2 || makers[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: codec-corpus protobuf|everything|text")
		os.Exit(2)
	}
	fmt.Println("{")
	separator := ""
	for _, section := range makers[os.Args[1]]() {
		fmt.Printf("%s%q: [\n", separator, section.name)
		for i, c := range section.cases {
			line, err := json.Marshal(c)
			must(err)
			fmt.Print(string(line))
			if i < len(section.cases)-1 {
				fmt.Print(",")
			}
			fmt.Println()
		}
		fmt.Print("]")
		separator = ",\n"
	}
	fmt.Println("\n}")
}

// section is a named list of cases; the output has one case a line, so that changes can be read.
type section struct {
	name  string
	cases []any
}
