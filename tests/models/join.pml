/* A parent waits for its children, and whoever ends the last of them wakes it: once, however close the ends are.
 *
 * At the grain of statements, as PostgreSQL runs them: a statement sees what was committed before it, and what its own
 * transaction has written; a row that another transaction has written is waited for. (SQLite has one writer, so there
 * every transaction is one step, and nothing here can happen but in order.)
 *
 * here                 in src/onceward
 * Parent               store/attempts/commits.py HandOver with joins: hand_over; then store/lineage/joins.py join: child_ids,
 *                      await_children, insert_joins, wait_for_children
 * Child                store/attempts/commits.py finish -> store/lineage/joins.py lock_parents; then propagate_locked_ends: end_joins,
 *                      still_joined, wake_joined
 * Operator             store/operations/task_actions.py cancel of the parent while it waits: cancel, forget_joins
 * joined[c]            onceward_join (child, parent): the row is there and committed
 * gone[c], forgotten[c]  its child, or an operator, has deleted it and has not committed yet
 *
 * larger: CHILDREN=5
 * breaks: LOOK_BEFORE_LOCK never_woken    each of two sees the row that the other has deleted and not committed
 * breaks: ROWS_BEFORE_LOCK circle         a child has the row and wants the parent, an operator the other way round
 * breaks: AWAIT_WITHOUT_LOCK never_woken  a child ends between the look at it and the row that waits for it
 * breaks: WAKE_ANYWAY woken_early         every child that ends wakes the parent
 * breaks: WAKE_WHATEVER left_terminal     a cancel that leaves the rows, and a wake that does not name the status it may leave
 */

#ifndef CHILDREN
#define CHILDREN 3
#endif

#define PENDING 0
#define RUNNING 1
#define WAITING 3
#define CANCELLED 8

byte parent_status = RUNNING;
bit parent_lock;                    /* its row is written by a transaction that has not ended */
bit has_ended[CHILDREN];            /* committed */
bit child_lock[CHILDREN];
bit awaited[CHILDREN];
bit joined[CHILDREN], gone[CHILDREN], forgotten[CHILDREN];

bit never_woken, woken_early, left_terminal, circle;

#ifdef WAKE_ANYWAY
#define IS_LAST true
#else
#define IS_LAST (left == 0)
#endif

#ifdef WAKE_WHATEVER
#define MAY_BE_WOKEN true
#else
#define MAY_BE_WOKEN (parent_status == WAITING)
#endif

inline look() {                                                 /* still_joined: a new statement, a new snapshot */
    atomic {
        c = 0;
        left = 0;
        do
        :: c < CHILDREN ->
            if
            :: joined[c] && c != me -> left++                   /* what others have deleted and not committed is there */
            :: else
            fi;
            c++
        :: else -> break
        od;
        c = 0
    }
}

inline lock_parent() {
    if                                                          /* lock_parents: of those whose rows are there */
    :: is_awaited && joined[me] -> atomic { !parent_lock -> parent_lock = 1; has_lock = 1 }
    :: else
    fi
}

proctype Child(byte me) {
    byte c, left;
    bit is_awaited, has_lock;
    atomic { !child_lock[me] -> child_lock[me] = 1; is_awaited = awaited[me] }      /* finish RETURNING awaited */
#ifdef LOOK_BEFORE_LOCK
    look();
#endif
#ifndef ROWS_BEFORE_LOCK
    lock_parent();
#endif
    atomic {                                                    /* end_joins: an operator may have been faster */
        !forgotten[me] ->
        if
        :: !is_awaited || !joined[me] -> goto commit
        :: else -> gone[me] = 1
        fi
    }
#ifdef ROWS_BEFORE_LOCK
    lock_parent();
#endif
#ifndef LOOK_BEFORE_LOCK
    look();
#endif
    atomic {                                                    /* wake_joined: where status is waiting, for children */
        if
        :: IS_LAST && MAY_BE_WOKEN ->
            woken_early = (left > 0);
            assert(!woken_early);
            left_terminal = (parent_status == CANCELLED);
            assert(!left_terminal);
            parent_status = PENDING
        :: else
        fi
    }
commit:
    atomic {
        has_ended[me] = 1;
        child_lock[me] = 0;
        if
        :: gone[me] -> joined[me] = 0; gone[me] = 0
        :: else
        fi;
        if
        :: has_lock -> parent_lock = 0; has_lock = 0
        :: else
        fi
    }
}

proctype Parent() {
    byte c, open;
    bit seen_open[CHILDREN];
    parent_lock = 1;                                            /* hand_over: the fence first */
    do                                                          /* await_children: waits for rows that others have written */
    :: c < CHILDREN ->
#ifdef AWAIT_WITHOUT_LOCK
        seen_open[c] = !has_ended[c];
#else
        atomic {
            !child_lock[c] ->
            seen_open[c] = !has_ended[c];
            if
            :: seen_open[c] -> child_lock[c] = 1                /* its row is ours until we commit */
            :: else
            fi
        }
#endif
        c++
    :: else -> break
    od;
    atomic {                                                    /* insert_joins, wait_for_children, commit */
        c = 0;
        do
        :: c < CHILDREN ->
            if
            :: seen_open[c] ->
                joined[c] = 1;
                awaited[c] = 1;
                open++;
#ifndef AWAIT_WITHOUT_LOCK
                child_lock[c] = 0
#endif
            :: else
            fi;
            c++
        :: else -> break
        od;
        c = 0;
        parent_status = (open > 0 -> WAITING : PENDING);
        open = 0;
        parent_lock = 0
    }
}

proctype Operator() {
    byte c;
    if
    :: atomic { parent_status == WAITING && !parent_lock -> parent_lock = 1; parent_status = CANCELLED }
    :: goto done                                                /* or does not */
    fi;
#ifndef WAKE_WHATEVER
    do                                                          /* forget_joins: waits for rows that others delete */
    :: c < CHILDREN -> atomic { !gone[c] -> forgotten[c] = 1; c++ }
    :: else -> break
    od;
#endif
    atomic {                                                    /* commit */
        c = 0;
        do
        :: c < CHILDREN ->
            if
            :: forgotten[c] -> joined[c] = 0; forgotten[c] = 0
            :: else
            fi;
            c++
        :: else -> break
        od;
        c = 0;
        parent_lock = 0
    }
done:
    skip
}

init {
    byte c;
    atomic {
        run Parent();
        run Operator();
        do
        :: c < CHILDREN -> run Child(c); c++
        :: else -> break
        od
    }
    timeout;
    circle = (_nr_pr > 1);
    assert(!circle);
    never_woken = (parent_status == WAITING);
    assert(!never_woken)
}
