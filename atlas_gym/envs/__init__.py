"""The Gymnasium side: program text in, reward and feedback out, one environment or a vector of them.

In: actions, which are programs. Out: observations, rewards and `info`. What a task is, and how a program is
scored, lies below, in `tasks` and `evaluation`.
"""
