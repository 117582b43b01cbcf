"""The document processor: a searchable library of books and papers, with the connections between their passages."""
