"""The report of one or several runs: one HTML file that opens from disk and asks nobody for anything.

    read       one moment of each run's store (`data`)
    derive     curves with bands (`comparison`), tables in the paper's shape (`tables`), pictures (`pictures`)
    write      the page (`payload`, `write`), the tables as CSV and Markdown (`table_formats`), figures
    serve      the same page of a run in progress, on localhost (`follow`)

Programs are written by whoever was asked to write programs, and are hostile here too. Everything a run holds
travels as JSON inside a data block that cannot be closed from within (`write.embed`); the page's script
puts it on screen as text nodes only; a Content-Security-Policy forbids every request and every script but
the page's own.
"""
