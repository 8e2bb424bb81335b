"""The report of one run or several: one HTML file that opens from disk and asks nobody for anything.

    data       one moment of each run's store
    words      what tuning changed, in sentences that the intervals choose
    figures    pictures of the search, of learning, and of runs against each other
    tables     phases, supporters, authors, failures, scores
    page       the page, made of the template `page.html`

Programs and replies are written by whoever was asked for them, and are hostile here too. The template escapes every
value (Jinja's autoescape), characters that cannot be seen are shown as escapes, and the page has no script: its
Content-Security-Policy allows its own style sheet, by hash, and embedded pictures.
"""

from atlas_gym.optional import any_backend

any_backend()
