.PHONY: build test race lint golden bench fuzz docs
build:
	go build -o bin/cpnode ./cmd/cpnode
test:
	go vet ./... && go test ./...
race:
	go test -race -short ./...
lint:
	test -z "$$(gofmt -l $$(git ls-files '*.go'))" && go vet ./...
golden: build
	bin/cpnode replay --verify testdata/golden/*.jsonl
bench:
	go test -run '^$$' -bench . -benchmem ./store ./ops ./api/...
fuzz:
	go test -run '^$$' -fuzz FuzzDecodeJSON -fuzztime 30s ./api/wire
	go test -run '^$$' -fuzz FuzzDecodeMsgpack -fuzztime 30s ./api/wire
docs:
	go run ./cmd/cpnode config reference > docs/configuration.md
