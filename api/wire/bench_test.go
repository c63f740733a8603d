package wire

import "testing"

// commitBody is a commit of ten batches, the request that brokers send most.
func commitBody(b *testing.B, f Format) []byte {
	data, err := Append(f, nil, sampleCommit(10))
	if err != nil {
		b.Fatal(err)
	}
	return data
}

func benchmarkDecode(b *testing.B, f Format) {
	data := commitBody(b, f)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		var req commitFile
		if err := Decode(f, data, &req, Limits{MaxItems: 10000}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeJSON(b *testing.B)    { benchmarkDecode(b, JSON) }
func BenchmarkDecodeMsgpack(b *testing.B) { benchmarkDecode(b, Msgpack) }

func benchmarkAppend(b *testing.B, f Format) {
	req := sampleCommit(10)
	buf := commitBody(b, f)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if buf, err = Append(f, buf[:0], req); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendJSON(b *testing.B)    { benchmarkAppend(b, JSON) }
func BenchmarkAppendMsgpack(b *testing.B) { benchmarkAppend(b, Msgpack) }
