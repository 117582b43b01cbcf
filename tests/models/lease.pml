/* One task, leased to one worker at a time: lease, fence and lossy failover.
 *
 * Workers claim, freeze (any process may stand still for as long as it likes), die and are buried, rightly or wrongly;
 * a standby that is behind takes over, so that the last commits are gone and a fence is given out a second time.
 *
 * here                 in src/onceward
 * Worker, claim        worker/writer.py Writer._operation -> store/attempts/claims.py claim: pop, lease_tasks, write_leases
 * Attempt, commit      store/attempts/commits.py commit: advance_group and finish_group
 * IS_MINE              their WHERE: id, fence, one of the tokens of this process, status = running
 * Sweeper, bury        worker/housekeeping.py -> store/attempts/workers.py bury: bury_worker, claims_of_worker, held_by_claim,
 *                      take_back
 * begin_again          worker/process.py WorkerProcess.run: everything is lost, stop_worker gives back what the
 *                      database thinks it holds, and the process goes on under a new name (here: as another Worker)
 * WENT_BACK            store/drivers/session.py Session.transact: each transaction of a worker's writer looks for the receipt of
 *                      the one before it; and worker/keeper.py asks for it at every heartbeat, for a writer that is idle
 * Disaster             a failover to an asynchronous standby, or a backup that is restored: db := an older db
 *
 * larger: WORKERS=3
 * larger: CLAIMS=4 FAILOVERS=2 ROBBERIES=2
 * breaks: NO_FENCE stale_commit             a commit names the task and nothing else
 * breaks: NUMBER_ALONE stale_commit         a fence without a token (and nothing else) comes twice after a failover
 * breaks: NO_RECEIPT_OF_LAST missing_stage  a worker goes on from a commit that the failover has lost
 * breaks: NO_RECEIPT_OF_LAST stuck          a worker believes that it has ended what the failover brought back
 * breaks: NO_RECEIPT_OF_LAST mixed_up       an attempt passes for a later one of its own process
 * breaks: BURIED_MAY_CLAIM stuck            nobody looks at the leases of a worker that was declared dead
 * breaks: BURIED_KEEPS stuck                the dead are buried, and what they held is left to them
 */

#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef CLAIMS
#define CLAIMS 3
#endif
#ifndef FAILOVERS
#define FAILOVERS 1
#endif
#ifndef ROBBERIES
#define ROBBERIES 1     /* how often a worker is buried that is alive */
#endif
#define STAGES 2

#define PENDING 0       /* and it stands in line */
#define RUNNING 1
#define SUCCEEDED 4

typedef Database {
    byte status, fence, token, stage;   /* onceward_task; a token is the number of its claim, 0 is NULL */
    byte worker[CLAIMS + 1];            /* onceward_claim: whose claim made a token */
    bit living[WORKERS];                /* onceward_worker: stopped_at IS NULL */
    byte receipt[WORKERS];              /* onceward_receipt: how many this worker has left */
    byte effects[STAGES]                /* what stages have written, once for each commit */
}

Database db, standby;

byte claims;                /* tokens are random: no failover brings one back */
byte acknowledged[WORKERS]; /* how many of its transactions a worker knows to be committed */
bit ended[WORKERS];         /* the process is gone, or works under another name */
byte failovers, robberies;

bit stale_commit, mixed_up, missing_stage, double_effect, stuck;

#ifdef NUMBER_ALONE
#define NO_RECEIPT_OF_LAST
#endif

#if defined(NO_FENCE)
#define IS_MINE (db.status == RUNNING)
#elif defined(NUMBER_ALONE)
#define IS_MINE (db.status == RUNNING && db.fence == fence)
#else
#define IS_MINE (db.status == RUNNING && db.fence == fence && db.worker[db.token] == me)
#endif

#ifdef NO_RECEIPT_OF_LAST
#define WENT_BACK false
#else
#define WENT_BACK (db.receipt[me] != acknowledged[me])
#endif

#ifdef BURIED_MAY_CLAIM
#define MAY_CLAIM true
#else
#define MAY_CLAIM db.living[me]
#endif

inline leave_receipt() {
    db.receipt[me]++;
    acknowledged[me] = db.receipt[me]
}

inline take_back(whose) {
    if
    :: db.status == RUNNING && db.worker[db.token] == whose -> db.status = PENDING; db.token = 0
    :: else
    fi
}

inline begin_again() {
    ended[me] = 1;
    db.living[me] = 0
}

/* An attempt runs its stages, and commits each of them in a transaction: one atomic step. */
proctype Attempt(byte me; byte token; byte fence; byte stage) {
    do
    :: ended[me] -> break
    :: atomic {
        !ended[me] ->
        if
        :: WENT_BACK -> begin_again(); take_back(me); break
        :: else -> leave_receipt()
        fi;
        if
        :: !IS_MINE -> break        /* refused by the fence */
        :: else
        fi;
        stale_commit = (db.worker[db.token] != me);
        assert(!stale_commit);
        mixed_up = (db.token != token);
        assert(!mixed_up);
        missing_stage = (db.stage != stage);
        assert(!missing_stage);
        db.effects[stage]++;
        double_effect = (db.effects[stage] > 1);
        assert(!double_effect);
        stage++;
        db.stage = stage;
        if
        :: stage == STAGES -> db.status = SUCCEEDED; db.token = 0; break
        :: else
        fi
       }
    od
}

proctype Worker(byte me) {
    bit is_mortal;
    db.living[me] = 1;          /* register_worker */
    if
    :: is_mortal = 1
    :: skip
    fi;
end:
    do
    :: ended[me] -> break
    :: atomic {
        !ended[me] && db.status == PENDING && claims < CLAIMS ->
        if
        :: WENT_BACK || !MAY_CLAIM -> begin_again(); break
        :: else -> leave_receipt()
        fi;
        claims++;
        db.status = RUNNING;
        db.fence++;
        db.token = claims;
        db.worker[claims] = me;
        run Attempt(me, claims, db.fence, db.stage)
       }
    :: atomic { !ended[me] && WENT_BACK -> begin_again(); take_back(me); break }    /* asked at every heartbeat */
    :: atomic { is_mortal && !ended[me] -> ended[me] = 1; break }       /* kill -9 */
    od
}

/* Buries a worker that is dead; and now and then one that only seemed so. */
proctype Sweeper(byte whose) {
end:
    do
    :: atomic {
        db.living[whose] && (ended[whose] || robberies < ROBBERIES) ->
        if
        :: ended[whose]
        :: else -> robberies++
        fi;
        db.living[whose] = 0;
#ifndef BURIED_KEEPS
        take_back(whose)
#endif
       }
    od
}

inline copy(to, from) {
    to.status = from.status;
    to.fence = from.fence;
    to.token = from.token;
    to.stage = from.stage;
    i = 0;
    do
    :: i < STAGES -> to.effects[i] = from.effects[i]; i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < WORKERS -> to.living[i] = from.living[i]; to.receipt[i] = from.receipt[i]; i++
    :: else -> break
    od;
    i = 0;
    do
    :: i <= CLAIMS -> to.worker[i] = from.worker[i]; i++
    :: else -> break
    od;
    i = 0
}

proctype Disaster() {
    byte i;
end:
    do
    :: d_step { failovers < FAILOVERS -> failovers++; copy(standby, db) }
        d_step { copy(db, standby) }
    od
}

init {
    byte i;
    atomic {
        do
        :: robberies < ROBBERIES -> robberies++         /* some of them never happen */
        :: break
        od;
        do
        :: i < WORKERS -> run Worker(i); run Sweeper(i); i++
        :: else -> break
        od;
        i = 0;
        run Disaster()
    }
    timeout;                    /* nobody has anything left to do */
    stuck = (db.status == RUNNING);
    assert(!stuck)
}
