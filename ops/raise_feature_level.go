package ops

import "github.com/cpnode/cpnode/store"

// RaiseFeatureLevel raises the feature level of the state, which never goes back.
// Only nodes propose it, after making sure that every member's release supports
// the level. Its answer is a FeatureLevelRaised.
type RaiseFeatureLevel struct{ Level uint64 }

// FeatureLevelRaised says what became of the level: To is From where that was high
// enough.
type FeatureLevelRaised struct{ From, To uint64 }

// Validate refuses a level that this release does not know.
func (r *RaiseFeatureLevel) Validate(Limits) error {
	if err := Supported(r.Level); err != nil {
		return Errorf(UnsupportedFeatureLevel, "level %d: this release supports %d", r.Level, FeatureLevel)
	}
	return nil
}

// Begin logs one entry, or none where the state has the level.
func (r *RaiseFeatureLevel) Begin(Settings) Steps {
	return &once[FeatureLevelRaised]{command: &raiseFeatureLevel{level: r.Level}}
}

// raiseFeatureLevel is the logged command.
type raiseFeatureLevel struct{ level uint64 }

func (*raiseFeatureLevel) Op() string { return "raise-feature-level" }

func (c *raiseFeatureLevel) fields(f *codec) {
	f.object(1, func(f *codec) { f.uint64(&c.level) })
}

// Apply stops a node whose release does not support the level: the entries that
// follow may be ones that it would misread.
func (c *raiseFeatureLevel) Apply(tx *store.WriteTx, nowMs int64) (any, error) {
	return applyDecided(c, tx, nowMs)
}

func (c *raiseFeatureLevel) decide(tx *store.ReadTx, _ int64) (change[FeatureLevelRaised], error) {
	present := tx.Meta().FeatureLevel
	if c.level <= present {
		return change[FeatureLevelRaised]{answer: FeatureLevelRaised{From: present, To: present}}, nil
	}
	if err := Supported(c.level); err != nil {
		return change[FeatureLevelRaised]{}, err
	}
	return change[FeatureLevelRaised]{FeatureLevelRaised{From: present, To: c.level}, func(tx *store.WriteTx) error {
		tx.SetFeatureLevel(c.level)
		return nil
	}}, nil
}
