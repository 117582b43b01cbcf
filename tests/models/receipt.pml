/* A commit whose reply is lost: did it happen? The receipt decides, once and for all.
 *
 * A client runs a transaction. Its connection may break before the commit is sent or after it; the server may finish the
 * old transaction, or drop it, at any time later. The client connects again, decides by the receipt, and runs the
 * operation anew if it did not happen.
 *
 * here                 in src/onceward
 * Client               store/drivers/session.py Session.transact; settled: Session._has_committed
 * Server               a backend that still has the old transaction: commits it or drops it whenever it likes
 * receipt[t]           onceward_receipt: write_receipt in the transaction itself, bar_receipt afterwards; its primary key
 *                      makes the second insert of a token wait for the first, and then fail or do nothing
 * work                 what the operation writes: tasks, checkpoints, domain rows
 *
 * larger: TRIES=5
 * breaks: ERROR_IS_FAILURE double_work  a commit error is taken for "it did not happen"
 * breaks: ERROR_IS_SUCCESS lost_work    or for "it happened"
 * breaks: READ_WITHOUT_BAR double_work  a mere look, while the old transaction may still commit
 */

#ifndef TRIES
#define TRIES 3
#endif

#define ABSENT 0
#define IN_FLIGHT 1     /* inserted by a transaction that has not ended: it holds the key */
#define COMMITTED 2
#define BARRED 3

byte receipt[TRIES];
bit sent[TRIES];        /* COMMIT was sent: the server may carry it out */
byte work;
bit answered;           /* the caller was told that it is done */

bit double_work, lost_work;

/* One backend for each try: it commits what was sent, or drops it, as late as it likes. */
proctype Server(byte t) {
    atomic {
        if
        :: sent[t] && receipt[t] == IN_FLIGHT -> receipt[t] = COMMITTED; work++
        :: receipt[t] == IN_FLIGHT -> receipt[t] = ABSENT       /* rolled back, or the backend was killed */
        fi;
        double_work = (work > 1);
        assert(!double_work)
    }
}

proctype Client() {
    byte t;
    bit happened;
    do
    :: t == TRIES -> break
    :: t < TRIES ->
        receipt[t] = IN_FLIGHT;                 /* begin, write_receipt, the operation */
        run Server(t);
        if
        :: sent[t] = 1                          /* commit */
        :: skip                                 /* the connection breaks before that: not in doubt, run it again */
        fi;
        if
        :: sent[t] && receipt[t] == COMMITTED -> answered = 1; break    /* the reply arrives */
        :: true                                                         /* it does not */
        fi;
        if
        :: !sent[t] -> happened = 0
        :: sent[t] ->
#if defined(ERROR_IS_FAILURE)
            happened = 0
#elif defined(ERROR_IS_SUCCESS)
            happened = 1
#elif defined(READ_WITHOUT_BAR)
            happened = (receipt[t] == COMMITTED)
#else
            atomic {
                receipt[t] != IN_FLIGHT ->      /* bar_receipt waits for the transaction that holds the key */
                if
                :: receipt[t] == ABSENT -> receipt[t] = BARRED; happened = 0
                :: else -> happened = (receipt[t] == COMMITTED)
                fi
            }
#endif
        fi;
        if
        :: happened -> answered = 1; break
        :: else -> t++
        fi
    od
}

init {
    run Client();
    timeout;
    lost_work = (answered && work == 0);
    assert(!lost_work)
}
