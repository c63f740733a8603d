package ops

import "github.com/cpnode/cpnode/store"

// What a release of the next feature level might add.

type FenceObjectRequest struct {
	ObjectKey string `json:"object_key"`
}

type FenceObjectResponse struct {
	FencedUntil int64 `json:"fenced_until"`
}

func init() {
	register(Operation{
		Name: "fence-object", Summary: "Fence an object key.", FeatureLevel: FeatureLevel,
		NewRequest:  func() Request { return new(FenceObjectRequest) },
		NewResponse: func() any { return new(FenceObjectResponse) },
		NewCommand:  func() Command { return new(fenceObject) },
	})
}

func (*FenceObjectRequest) Validate(Limits) error { return nil }

func (r *FenceObjectRequest) Begin(Settings) Steps {
	return &once[*FenceObjectResponse]{command: &fenceObject{key: r.ObjectKey}}
}

type fenceObject struct{ key string }

func (*fenceObject) Op() string { return "fence-object" }

func (c *fenceObject) fields(f *codec) { f.object(1, func(f *codec) { f.string(&c.key) }) }

func (c *fenceObject) Apply(tx *store.WriteTx, nowMs int64) (any, error) {
	return applyDecided(c, tx, nowMs)
}

func (c *fenceObject) decide(_ *store.ReadTx, nowMs int64) (change[*FenceObjectResponse], error) {
	until := nowMs + 60_000
	return change[*FenceObjectResponse]{&FenceObjectResponse{until}, func(tx *store.WriteTx) error { return tx.PutFence(c.key, until) }}, nil
}
