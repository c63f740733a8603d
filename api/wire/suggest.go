package wire

import "fmt"

// maxMisspelt is how many letters a name may be off and still be taken for another.
const maxMisspelt = 3

// Suggest is " (did you mean x?)" with the nearest of the known names, empty when
// none is near.
func Suggest(name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return fmt.Sprintf(" (did you mean %s?)", near)
	}
	return ""
}

// Nearest is the known name that was most likely meant, empty when none is near.
func Nearest(name string, known []string) string {
	best, bestDistance := "", maxMisspelt+1
	for _, k := range known {
		if d := distance(name, k); d < bestDistance && d < len(k) {
			best, bestDistance = k, d
		}
	}
	return best
}

// distance counts the single letters to insert, remove or change to make b of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
