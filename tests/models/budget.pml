/* A budget that many workers spend from: what a stage may cost is set aside at its claim, and settled with its commit.
 *
 * Workers claim tasks, call a provider who bills at most the estimate, and commit. They die or lose their lease at any
 * moment, also between the bill and the word about it; one that was robbed still makes its call. What counts is the
 * provider's own ledger.
 *
 * here                 in src/onceward
 * Claimer              store/attempts/claims.py claim -> store/governance/budgets.py set_aside: hold_budgets locks the row, what is left is
 *                      compared, change_budgets; reserve: insert_reservations, in the name of the claim's token;
 *                      park_for_budget: what does not fit waits
 * Attempt, commit      store/attempts/commits.py, the fence; then store/governance/budgets.py settle: end_reservations RETURNING what it takes
 *                      away, change_budgets
 * Sweeper, bury        store/attempts/workers.py bury
 * Sweeper, orphans     store/governance/budgets.py settle_orphans: orphaned_reservations, drop_reservations RETURNING: rows whose
 *                      task does not carry their token any more are spent
 * Sweeper, wake        store/governance/budget_waits.py wake_for_budgets
 * billed               the outside service: nobody but it knows what was really spent
 *
 * larger: TASKS=3 ATTEMPTS=4
 * breaks: CHECK_THEN_ACT passed_ceiling     what is left is read before the row is locked
 * breaks: LOST_IS_FREE passed_ceiling       what a lost attempt had set aside is free again
 * breaks: SETTLED_UNFENCED passed_ceiling   who has lost its lease settles the reservation of its successor
 * breaks: READ_THEN_DELETE leaked           two settle what only one of them has taken away
 */

#ifndef TASKS
#define TASKS 2
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 3
#endif
#ifndef ROBBERIES
#define ROBBERIES 1
#endif
#define ESTIMATE 2
#define CEILING 4

#define PENDING 0
#define RUNNING 1
#define WAITING 3
#define SUCCEEDED 4

byte status[TASKS], token[TASKS];   /* onceward_task; a token is the number of its attempt, 0 is NULL */
byte reserved, spent;               /* onceward_budget */
byte amount[ATTEMPTS + 1];          /* onceward_reservation, by token */
byte task_of[ATTEMPTS + 1];
byte attempts, robberies;
bit dead[ATTEMPTS + 1];
byte billed;                        /* the provider's ledger */

bit passed_ceiling, unaccounted, leaked;

#define LEFT (CEILING - spent - reserved)

inline settle(t, paid) {
    spent = spent + paid;
    reserved = reserved - amount[t];
    amount[t] = 0
}

proctype Attempt(byte me; byte task) {
    byte cost;
    if
    :: cost = 0
    :: cost = ESTIMATE
    :: dead[me] = 1; goto gone          /* before it calls */
    fi;
    atomic {                            /* the call: whether or not the lease still stands */
        billed = billed + cost;
        passed_ceiling = (billed > CEILING);
        assert(!passed_ceiling);
        unaccounted = (billed > spent + reserved);
        assert(!unaccounted)
    }
    if
    :: dead[me] = 1; goto gone          /* before it can say so */
    :: skip
    fi;
    atomic {
        if
        :: status[task] == RUNNING && token[task] == me ->
            settle(me, cost);
            status[task] = SUCCEEDED;
            token[task] = 0
#ifdef SETTLED_UNFENCED
        :: status[task] == RUNNING && token[task] != me && amount[token[task]] > 0 ->
            settle(token[task], cost)
#endif
        :: else                         /* refused: what it has spent is counted already, or will be */
        fi
    }
gone:
    skip
}

proctype Claimer(byte task) {
    byte left;
end:
    do
    :: atomic { status[task] == PENDING && attempts < ATTEMPTS -> left = LEFT }
#ifndef CHECK_THEN_ACT
       atomic {
        left = LEFT;                    /* again, and now under the lock of the row */
#else
       atomic {
#endif
        if
        :: status[task] != PENDING || attempts == ATTEMPTS
        :: else ->
            if
            :: left < ESTIMATE -> status[task] = WAITING
            :: else ->
                attempts++;
                reserved = reserved + ESTIMATE;
                amount[attempts] = ESTIMATE;
                task_of[attempts] = task;
                status[task] = RUNNING;
                token[task] = attempts;
                run Attempt(attempts, task)
            fi
        fi;
        left = 0
       }
    od
}

proctype Sweeper(byte t) {
    byte seen;
end:
    do
    :: atomic {                         /* bury: the lease goes, the reservation stays behind */
        amount[t] > 0 && token[task_of[t]] == t && (dead[t] || robberies < ROBBERIES) ->
        if
        :: dead[t]
        :: else -> robberies++
        fi;
        status[task_of[t]] = PENDING;
        token[task_of[t]] = 0
       }
    :: atomic { amount[t] > 0 && token[task_of[t]] != t -> seen = amount[t] }
       atomic {                         /* an orphan */
#if defined(LOST_IS_FREE)
        settle(t, 0);
#elif defined(READ_THEN_DELETE)
        spent = spent + seen;
        reserved = reserved - seen;
        amount[t] = 0;
#else
        settle(t, amount[t]);
#endif
        seen = 0
       }
    od
}

proctype Waker(byte task) {
end:
    do
    :: atomic { status[task] == WAITING && LEFT >= ESTIMATE -> status[task] = PENDING }
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
        :: i < TASKS -> run Claimer(i); run Waker(i); i++
        :: else -> break
        od;
        i = 1;
        do
        :: i <= ATTEMPTS -> run Sweeper(i); run Sweeper(i); i++     /* two machines sweep */
        :: else -> break
        od
    }
    timeout;                            /* nobody has anything left to do */
    leaked = (reserved != 0 || spent > CEILING || billed > spent);
    assert(!leaked)
}
