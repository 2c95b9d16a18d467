"""The kit that workflows are built from: names, options, message checks, activities, details, and long lives."""
