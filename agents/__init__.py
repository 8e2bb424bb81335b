"""The research agent: prompts become programs; islands keep them; supporters advise.

In: a task, the programs written so far and their scores. Out: proposals, completions and the candidates they make. On
top stands `research_agent`; `engines` write, `population` keeps, `proposals` ask, `supporters` advise, `models` hold
the weights.
"""
