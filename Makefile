# Every check is a step of .ci/run; this file only gives them short names.

.PHONY: ci test race lint fuzz fmt

ci:
	@bash .ci/run

test race lint fuzz:
	@bash .ci/run $@

fmt:
	gofmt -l -w .
