package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

var errConflict = errors.New("conflict")

const selectDeal = `select deal.tenant_id, deal.status, deal.step_id, deal.agent_user_id, deal.amount, deal.currency,
deal.row_version, deal.updated_at, booking.id, company.status from deal
left join booking on booking.deal_id = deal.id and booking.status = 'Active'
left join company on company.id = deal.tenant_id and company.kind = 'Developer'
where deal.id = $1`

const selectSteps = `select id, "group", is_default from step
where tenant_id = (select tenant_id from deal where id = $1) and archived_at is null order by sort_order`

const lockStep = `select id from step where id = $1 and archived_at is null for share`

const updateDeal = `update deal set status = $3, step_id = $4, step_group = $5, step_entered_at = $6, updated_at = $6,
updated_by_user_id = $7, row_version = row_version + 1, stage_change_version = row_version + 1
where id = $1 and row_version = $2`

const closeStage = `update stage set left_at = $2 where deal_id = $1 and left_at is null`

const openStage = `insert into stage (deal_id, row_version, step_id, status, entered_at) values ($1, $2, $3, $4, $5)`

const appendTimeline = `insert into timeline (id, deal_id, kind, payload, actor_user_id, actor_role, created_at,
row_version, agent_user_id, amount, currency)
values (gen_random_uuid(), $1, 'StatusChanged', $2, $4, 'PlatformManager', $5, $6, $7, $8, $9),
(gen_random_uuid(), $1, 'ManualNote', $3, $4, 'PlatformManager', $5, $6, $7, $8, $9)`

const register = `insert into status_override (id, deal_id, tenant_id, actor_user_id, from_status, to_status, comment,
created_at, row_version) values (gen_random_uuid(), $1, $2, $3, $4, $5, $6, $7, $8)`

const appendEvent = `insert into outbox (event_id, topic, key, type, payload, headers)
values (gen_random_uuid(), 'platform.crm.deal-stage-changed.v1', $1, 'platform.crm.deal-stage-changed.v1', $2, $3)`

type overrideRequest struct {
	TargetStatus string
	Comment      string
}

type dealCard struct {
	DealId     string
	Status     string
	StepId     string
	StepGroup  string
	UpdatedAt  time.Time
	RowVersion int64
}

type deal struct {
	id, tenantID, status, stepID string
	agent                        *string
	amount                       int64
	currency                     string
	rowVersion                   int64
	updatedAt                    time.Time
	booking, developerStatus     *string
}

type step struct {
	id, group string
	isDefault bool
}

// overrideStatus changes the status of a deal without a booking, as crm does for a platform manager.
func overrideStatus(pool *pgxpool.Pool, verifier *verifier) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		actor, permitted := verifier.caller(r, "crm.deals.manage@platform")
		if !permitted {
			http.Error(w, "forbidden", http.StatusForbidden)
			return
		}
		var request overrideRequest
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 256<<10)).Decode(&request)
		if err != nil || request.Comment == "" {
			http.Error(w, "invalid body", http.StatusBadRequest)
			return
		}
		current, steps, err := readDeal(r.Context(), pool, r.PathValue("id"))
		if err != nil {
			fail(w, err)
			return
		}
		group := request.TargetStatus
		if group == "Sale" {
			group = "Contract"
		}
		target := step{}
		for _, step := range steps {
			if step.group == group && step.isDefault {
				target = step
			}
		}
		if current.status == request.TargetStatus {
			respond(w, dealCard{current.id, current.status, current.stepID, group, current.updatedAt, current.rowVersion})
			return
		}
		if target.id == "" || current.booking != nil {
			fail(w, errConflict)
			return
		}
		card, err := writeOverride(r.Context(), pool, actor, request, current, target)
		if err != nil {
			fail(w, err)
			return
		}
		respond(w, card)
	}
}

func readDeal(ctx context.Context, pool *pgxpool.Pool, id string) (deal, []step, error) {
	found := deal{id: id}
	var steps []step
	var batch pgx.Batch
	batch.Queue(selectDeal, id).QueryRow(func(row pgx.Row) error {
		return row.Scan(&found.tenantID, &found.status, &found.stepID, &found.agent, &found.amount, &found.currency,
			&found.rowVersion, &found.updatedAt, &found.booking, &found.developerStatus)
	})
	batch.Queue(selectSteps, id).Query(func(rows pgx.Rows) error {
		var step step
		_, err := pgx.ForEachRow(rows, []any{&step.id, &step.group, &step.isDefault}, func() error {
			steps = append(steps, step)
			return nil
		})
		return err
	})
	return found, steps, pool.SendBatch(ctx, &batch).Close()
}

// writeOverride writes the change in one transaction of two batches.
func writeOverride(ctx context.Context, pool *pgxpool.Pool, actor string, request overrideRequest, before deal, target step) (dealCard, error) {
	now, version := time.Now().UTC().Truncate(time.Microsecond), before.rowVersion+1
	change, err := json.Marshal(map[string]string{
		"FromStatus": before.status, "ToStatus": request.TargetStatus, "Reason": request.Comment,
	})
	if err != nil {
		return dealCard{}, err
	}
	note, err := json.Marshal(map[string]string{"Text": request.Comment})
	if err != nil {
		return dealCard{}, err
	}
	event, err := json.Marshal(map[string]any{
		"DealId": before.id, "TenantId": before.tenantID, "FromStepId": before.stepID, "ToStepId": target.id,
		"FromStatus": before.status, "ToStatus": request.TargetStatus, "StepGroup": target.group,
		"AgentUserId": before.agent, "Amount": map[string]any{"AmountMinor": before.amount, "Currency": before.currency},
		"ActorUserId": actor, "ActorRole": "PlatformManager", "ChangedAt": now, "RowVersion": version,
	})
	if err != nil {
		return dealCard{}, err
	}
	headers, err := json.Marshal(map[string]string{"contractversion": "1", "content-type": "application/json"})
	if err != nil {
		return dealCard{}, err
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		var first pgx.Batch
		first.Queue(lockStep, target.id).Exec(isOne)
		first.Queue(updateDeal, before.id, before.rowVersion, request.TargetStatus, target.id, target.group, now, actor).Exec(isOne)
		first.Queue(closeStage, before.id, now)
		if err := tx.SendBatch(ctx, &first).Close(); err != nil {
			return err
		}
		var second pgx.Batch
		second.Queue(appendTimeline, before.id, change, note, actor, now, version, before.agent, before.amount, before.currency)
		second.Queue(openStage, before.id, version, target.id, request.TargetStatus, now)
		second.Queue(register, before.id, before.tenantID, actor, before.status, request.TargetStatus, request.Comment, now, version)
		second.Queue(appendEvent, before.id, event, headers)
		return tx.SendBatch(ctx, &second).Close()
	})
	return dealCard{before.id, request.TargetStatus, target.id, target.group, now, version}, err
}

// isOne returns errConflict unless the statement changed or locked exactly one row.
func isOne(tag pgconn.CommandTag) error {
	if tag.RowsAffected() != 1 {
		return errConflict
	}
	return nil
}
