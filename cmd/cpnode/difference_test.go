package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCompareAnswersNamesTheFirstDifference(t *testing.T) {
	const recorded = `{"response":{"a":[1,{"b":"x"}],"big":9007199254740993,"c":null}}`
	require.NoError(t, compareAnswers("op", []byte(recorded), []byte(`{"response": {"c":null, "big":9007199254740993, "a":[1, {"b":"x"}]}}`)))
	for replayed, want := range map[string]string{
		`{"response":{"a":[1,{"b":"y"}],"big":9007199254740993,"c":null}}`:       "at response.a[1].b\n  recorded  \"x\"\n  replayed  \"y\"\n",
		`{"response":{"a":[1,{"b":"x"}],"big":9007199254740992,"c":null}}`:       "at response.big\n  recorded  9007199254740993\n  replayed  9007199254740992\n",
		`{"response":{"a":[1,{"b":"x"},3],"big":9007199254740993,"c":null}}`:     "at response.a[2]\n  recorded  nothing\n  replayed  3\n",
		`{"response":{"a":[1],"big":9007199254740993,"c":null}}`:                 "at response.a[1]\n  recorded  {\"b\":\"x\"}\n  replayed  nothing\n",
		`{"response":{"a":[1,{"b":"x"}],"big":9007199254740993}}`:                "at response.c\n  recorded  null\n  replayed  nothing\n",
		`{"response":{"a":[1,{"b":"x"}],"big":9007199254740993,"c":null,"d":1}}`: "at response.d\n  recorded  nothing\n  replayed  1\n",
		`{"response":{"a":{"0":1},"big":9007199254740993,"c":null}}`:             "at response.a\n",
		`{"error":{"code":"NO_LEADER"}}`:                                         "at error\n",
	} {
		require.ErrorContains(t, compareAnswers("op", []byte(recorded), []byte(replayed)), want)
	}
	require.ErrorContains(t, compareAnswers("op", []byte(`{"response":nonsense}`), []byte(`{}`)), "the recorded answer does not decode")
}
