/* A schedule that every worker knows: each of its times is fired once, by whoever is first.
 *
 * Workers look, see a time due by a clock of their own, which may be set back or forward, and fire it; any of them may
 * stand still between its look and its transaction, or die in it.
 *
 * here                 in src/onceward
 * look                 worker/scheduler.py fire_due: read_schedules
 * due                  model/schedule.py Cron.due: every time from the one seen to now (missed="all")
 * fire                 store/operations/schedules.py fire: advance_schedule names the time that was seen; the enqueue, by the same
 *                      path as any root, is part of the same transaction
 *
 * larger: WORKERS=3 TIMES=4 STEPS=2
 * breaks: NO_TIME_SEEN fired_twice       the row is moved on whatever time it stands at
 * breaks: TIME_BY_CLOCK fired_twice      what is due is reckoned from the clock and not from the row
 * breaks: ENQUEUE_APART never_fired      the row is moved on in one transaction and the task enqueued in another
 * breaks: ENQUEUE_FIRST fired_twice      or the other way round
 */

#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef TIMES
#define TIMES 3
#endif
#ifndef STEPS
#define STEPS 2         /* how often somebody sets a clock */
#endif

byte next_at = 1;                       /* onceward_schedule; the times are 1, 2, 3 … */
byte fired[TIMES + 1];                  /* the tasks that were enqueued for a time */
byte now[WORKERS];                      /* the clock of each worker */
byte last[WORKERS];                     /* TIME_BY_CLOCK: what a worker remembers to have fired */
byte steps;

bit fired_twice, never_fired;

inline enqueue(first, upto) {
    t = first;
    do
    :: t <= upto ->
        fired[t]++;
        fired_twice = (fired[t] > 1);
        assert(!fired_twice);
        t++
    :: else -> break
    od;
    t = 0
}

proctype Worker(byte me) {
    byte seen, upto, t;
end:
    do
    :: atomic { next_at <= now[me] -> seen = next_at; upto = now[me] }              /* look */
        if
        :: skip
        :: seen = 0; upto = 0; break                                                /* dies before it fires */
        fi;
#if defined(TIME_BY_CLOCK)
        atomic {
            if
            :: last[me] < upto -> enqueue(last[me] + 1, upto); last[me] = upto; next_at = (next_at <= upto -> upto + 1 : next_at)
            :: else
            fi
        }
#elif defined(NO_TIME_SEEN)
        atomic { next_at = upto + 1; enqueue(seen, upto) }
#elif defined(ENQUEUE_APART)
        atomic {
            if
            :: next_at == seen -> next_at = upto + 1
            :: else -> seen = 0
            fi
        }
        if
        :: seen == 0
        :: seen != 0 -> atomic { enqueue(seen, upto) }
        :: seen = 0; upto = 0; break                                                /* dies between the two */
        fi;
#elif defined(ENQUEUE_FIRST)
        atomic { if :: next_at == seen -> enqueue(seen, upto) :: else -> seen = 0 fi }
        if
        :: skip
        :: seen = 0; upto = 0; break
        fi;
        atomic { if :: seen != 0 && next_at == seen -> next_at = upto + 1 :: else fi }
#else
        atomic {
            if
            :: next_at == seen -> next_at = upto + 1; enqueue(seen, upto)           /* one transaction */
            :: else                                                                 /* somebody was first */
            fi
        }
#endif
        seen = 0;
        upto = 0
    od
}

proctype Time() {
    byte w;
    do
    :: atomic {                                                                     /* a clock goes on */
        w = 0;
        do
        :: w < WORKERS - 1 -> w++
        :: break
        od;
        if
        :: now[w] < TIMES -> now[w]++
        :: else -> break
        fi
       }
    :: atomic {                                                                     /* or is set, by anything */
        steps < STEPS ->
        steps++;
        w = 0;
        do
        :: w < WORKERS - 1 -> w++
        :: break
        od;
        if
        :: now[w] = 0
        :: now[w] = TIMES
        fi
       }
    od
}

init {
    byte i;
    atomic {
        run Time();
        do
        :: i < WORKERS -> run Worker(i); i++
        :: else -> break
        od;
        i = 1
    }
    timeout;
    atomic {                            /* whatever the row has passed was fired */
        do
        :: i < next_at ->
            never_fired = (fired[i] == 0);
            assert(!never_fired);
            i++
        :: else -> break
        od
    }
}
