"""A real OpenAI-compatible server: the embedded weights behind llama.cpp. Arguments: GGUF file, port."""

import sys

import xllamacpp

parameters = xllamacpp.CommonParams()
parameters.model.path = sys.argv[1]
parameters.port = int(sys.argv[2])
parameters.n_parallel = 2
parameters.n_ctx = 2 * 4096
parameters.cpuparams.n_threads = 1
parameters.cpuparams_batch.n_threads = 1
parameters.warmup = False

server = xllamacpp.Server(parameters)
sys.stdin.read()  # ends when the test that started this process has ended, however it did
