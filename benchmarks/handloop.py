"""A yardstick: vLLM's rules for counts alone, a step and a sequence at a time, in plain Python.

No block ids, no recording, no events, no other scheduler, one length of step. A sequence is
``[computed, known, end, blocks, row]``. It does the same steps as pagedsim, or the benchmark fails.
"""

from __future__ import annotations

from collections import deque


def run(requests, step_ns, free, block=16, max_len=16384, max_seqs=256, budget=8192):
    """Replay [arrival ns, prompt, output] rows: (steps, request-steps, finish of each row)."""
    waiting, running, finish = deque(), [], [0] * len(requests)
    now = at = steps = request_steps = 0
    while at < len(requests) or waiting or running:
        if not waiting and not running:
            now = max(now, requests[at][0])
        while at < len(requests) and requests[at][0] <= now:
            _, prompt, output = requests[at]
            waiting.append([0, prompt, min(prompt + output, max_len), 0, at])
            at += 1
        left, plan, preempted, index = budget, [], False, 0
        while index < len(running) and left:
            seq = running[index]
            want = min(seq[1] - seq[0], left)
            need = -(-(seq[0] + want) // block) - seq[3]
            while need > free and seq is not None:
                victim, preempted = running.pop(), True
                free += victim[3]
                victim[0] = victim[3] = 0
                waiting.appendleft(victim)
                seq = None if victim is seq else seq
            if seq is None:
                break
            free -= need
            seq[3] += need
            plan.append((seq, want))
            left -= want
            index += 1
        while waiting and left and len(running) < max_seqs and not preempted:
            seq = waiting[0]
            want = min(seq[1], left)
            if -(-seq[1] // block) > free:
                break
            seq[3] = -(-want // block)
            free -= seq[3]
            plan.append((seq, want))
            left -= want
            running.append(waiting.popleft())
        now += step_ns
        steps += 1
        request_steps += len(plan)
        for seq, want in plan:
            seq[0] += want
            if seq[0] == seq[1]:
                seq[1] += 1
                if seq[1] == seq[2]:
                    finish[seq[4]] = now
                    free += seq[3]
                    running.remove(seq)
    return steps, request_steps, finish
