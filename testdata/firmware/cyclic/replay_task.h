/*
 * An example: a replay in slices of a cyclic task, as AUTOSAR Classic schedules it. Nothing in it
 * waits: each call of ReplayTask_MainFunction executes a bounded number of commands and returns.
 *
 * Names are those that AUTOSAR requires of a basic software module (General Specification of Basic
 * Software Modules: <Module>_Init, <Module>_MainFunction); nothing else of AUTOSAR is used, so that
 * any scheduler may call it. `./build.sh bare IMAGE --budget N` runs it.
 */
#ifndef REPLAY_TASK_H
#define REPLAY_TASK_H

#include <stdint.h>

#include "lmplay.h"

/* The period with which the scheduler calls ReplayTask_MainFunction. */
#define REPLAY_TASK_PERIOD_US 1000u

/* The state of a request. */
typedef enum {
	REPLAY_TASK_IDLE,   /* no request yet */
	REPLAY_TASK_BUSY,   /* the request has not ended */
	REPLAY_TASK_DONE,   /* outputs are valid until the next request */
	REPLAY_TASK_FAILED, /* the image's sequence "safe" has run; the replay is disabled */
} ReplayTask_State;

/* The task. The caller provides it; its fields are the task's own. */
typedef struct {
	struct lmplay_replay *replay;
	ReplayTask_State state;
	struct lmplay_result result; /* of a request that has ended */
	uint32_t budget;             /* units of lmplay_step in one period */
	uint32_t periods;            /* calls of MainFunction since the present request */
} ReplayTask;

/*
 * Prepares the task for a loaded replay. `budget` bounds a period: at 1.2 us for a load across
 * PCIe, 200 units without copies take at most 240 us. A unit of a copy is at most LMPLAY_SLICE
 * bytes.
 */
void ReplayTask_Init(ReplayTask *task, struct lmplay_replay *replay, uint32_t budget);

/*
 * Requests a run of a sequence with the present inputs. Returns LMPLAY_OK; LMPLAY_USAGE if a
 * request has not ended; or what lmplay_start returns.
 */
enum lmplay_code ReplayTask_Request(ReplayTask *task, uint32_t sequence);

/* Continues the request. The scheduler calls it once a period. */
void ReplayTask_MainFunction(ReplayTask *task);

/*
 * Ends the request before its end: the next periods run "safe", then the state is FAILED. While
 * "safe" runs, the call has no effect. For shutdown and for a supervisor that does not accept the
 * task's state.
 */
void ReplayTask_Cancel(ReplayTask *task);

#endif
