"""HTTP without sessions: JSON, problems, fields, pages, compression, connections and their bounds."""
