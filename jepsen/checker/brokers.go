package checker

import (
	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/ops"
)

// checkBrokerEpochs checks that each registration of a broker, which one client makes one
// after the other, has a higher epoch than the one before.
func checkBrokerEpochs(v *Verdict, records []*history.Record) error {
	type registration struct {
		line  int
		epoch int64
	}
	last := map[int32]registration{}
	for i, r := range records {
		if r.Group != history.GroupSwitch || r.Op != "register-broker" || r.Outcome != history.OK {
			continue
		}
		err := decoded(r, func(q *ops.RegisterBrokerRequest, a *ops.RegisterBrokerResponse) {
			if a.Error != ops.None {
				return
			}
			before, known := last[q.BrokerID]
			if known && a.BrokerEpoch <= before.epoch {
				v.fail(CheckLeaders, []int{before.line, i + 1}, "broker %d: its epoch goes from %d to %d", q.BrokerID, before.epoch, a.BrokerEpoch)
			}
			last[q.BrokerID] = registration{i + 1, a.BrokerEpoch}
		})
		if err != nil {
			return err
		}
	}
	return nil
}
